"""The sections with pictures of virtual data, and with maps of features."""

from dataclasses import replace
from typing import Any

from fedmirage.common.errors import FedmirageError
from fedmirage.report.galleries import Gallery, find_galleries
from fedmirage.report.groups import Group
from fedmirage.report.html import (
    Html,
    PageSection,
    bullets,
    details,
    element,
    join,
    plot_section,
    table,
)
from fedmirage.report.runs import ReportedRun, brief

SAMPLES = 300  # test samples of a map
SEED = 0  # chooses them, and starts t-SNE
OPEN = 3  # galleries that are not folded away
TSNE = (
    "t-SNE takes seconds per methods line, so it is computed on request only: give"
    " fedmirage report the flag --tsne."
)


def galleries(group: Group) -> PageSection:
    """Show generated, virtual and distilled images over rounds."""
    found = find_galleries(group)
    if not found:
        said = "Methods with virtual data draw their images with --save-images; no run here did."
        return PageSection("galleries", "Virtual images", element("p", said))
    parts = [_gallery(group, one, number < OPEN) for number, one in enumerate(found)]
    return PageSection("galleries", "Virtual images", join(parts))


def features(group: Group, tsne: bool) -> PageSection:
    """Show maps of the features of test samples under the global models."""
    title = "Features"
    if not tsne:
        return PageSection("features", title, element("p", TSNE))
    options, rows, remarks = [], [], []
    for name in group.runs:
        short, run = group.labels[name], group.first_run(name)
        found = find_map(run) if run else "no run has begun"
        if isinstance(found, str):
            remarks.append(f"{short}: {found}.")
            continue
        options.append({"label": short, **found})
        rows.append([short, len(found["x"]), sum(found["virtual"]), found["neighbours"]])
    if not options:
        return PageSection("features", title, bullets(remarks))
    said = (
        "t-SNE of the features that the global model of the first seed computes for the same test"
        " samples, one colour per class; diamonds are virtual samples. Distances between clusters"
        " mean nothing in such maps."
    )
    head = ("Methods", "Points", "Of them virtual", "Same class as the nearest point, per cent")
    numbers = table("Points of every map", head, rows)
    spec = {"kind": "scatter", "label": "t-SNE of features by class", "options": options}
    drawn = plot_section("features", title, said, numbers, spec)
    return replace(drawn, html=join((drawn.html, bullets(remarks))))


def find_map(run: ReportedRun) -> dict[str, Any] | str:
    """Compute the map of a run; a sentence says why there is none."""
    # Imported here, because they load torch and scikit-learn.
    from fedmirage.report.tsne.finished import FinishedRun, cloud, embed

    try:
        if not run.settings.shares_all:
            return "it has no global model"
        opened = FinishedRun.open(run.folder)
        points = cloud(opened, ["server"], SAMPLES, SEED)
    except (FedmirageError, OSError) as error:
        return str(error)
    placed = embed(points, SEED)
    names, many = opened.data.classes, len(opened.data.classes)
    return {
        "x": [brief(float(one)) for one in placed[:, 0]],
        "y": [brief(float(one)) for one in placed[:, 1]],
        # A virtual class of a wider head has the colour of the class that it stands beside.
        "classes": [names[int(label) % many] for label in points.labels],
        "virtual": [bool(one) for one in points.virtual],
        "neighbours": f"{100 * _agreement(placed, points.labels % many):.1f}",
    }


def _agreement(placed: Any, labels: Any) -> float:
    """Return the share of points whose nearest neighbour on the map has the same class."""
    from sklearn.neighbors import NearestNeighbors

    nearest = NearestNeighbors(n_neighbors=1).fit(placed).kneighbors(return_distance=False)
    return float((labels[nearest[:, 0]] == labels).mean())


def _gallery(group: Group, gallery: Gallery, opened: bool) -> Html:
    """Write the pictures of one methods line; names of lines may hold anything."""
    short = group.labels[gallery.name]
    figures = []
    for picture in gallery.pictures:
        size = {"width": picture.width, "height": picture.height}
        alt = f"{short}, seed {gallery.seed}, {picture.caption}"
        image = element("img", "", src=picture.source, **size, alt=alt)
        figures.append(element("figure", join((image, element("figcaption", picture.caption)))))
    count = len(gallery.pictures)
    some = f", {count} of {gallery.there} pictures" if count < gallery.there else ""
    label = join((element("b", short), f", seed {gallery.seed}{some}"))
    parts = [element("div", join(figures), class_="gallery")]
    if some:
        place = join(("All are in ", element("code", gallery.folder.name), "."))
        parts.append(element("p", place, class_="note"))
    return details(label, join(parts), opened)
