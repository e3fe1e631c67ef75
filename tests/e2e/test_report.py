"""The report page in a real browser: from disk, and served while runs are under way."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from PIL import Image
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from fedmirage.report.data import gather
from fedmirage.report.page import render
from tests.support.browser import complaints, emulate, open_browser, overflow, requests, visit
from tests.support.browser import wait_for as wait
from tests.support.comparison import plan_records, read_lines, write_lines, write_records

pytestmark = pytest.mark.slow
NASTY = "</script><img src=x onerror=\"document.title='caught'\">"
CURVES = "#group-1-curves .canvas"
LINES = f"document.querySelectorAll('{CURVES} .scatterlayer .trace .js-line').length"
FOCUSED = "return document.activeElement.outerHTML.slice(0, 200);"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A comparison with pictures, and with a note that would be dangerous as HTML."""
    folder = tmp_path_factory.mktemp("comparison")
    write_records(plan_records(folder))
    run = folder / "fedavg-seed0"
    lines = read_lines(run)
    lines[-1]["notes"] = [NASTY]
    lines[0]["resolved"]["class_names"][3] = NASTY
    write_lines(run, lines)
    (folder / "vhl-width-8-seed0" / "images").mkdir()
    Image.new("RGB", (60, 40)).save(folder / "vhl-width-8-seed0" / "images" / "virtual.png")
    path = folder / "report.html"
    path.write_text(render(gather([folder])), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(autouse=True)
def usual_window(browser: Chrome) -> None:
    emulate(browser, 1280, "light")


def test_it_opens_from_disk_without_complaint_or_network(browser: Chrome, page: str) -> None:
    visit(browser, page)
    drawn = browser.find_elements(By.CSS_SELECTOR, ".canvas.js-plotly-plot .main-svg")
    places = browser.find_elements(By.CSS_SELECTOR, "[data-plot]")
    assert len(places) >= 8
    assert len(drawn) >= len(places)
    assert browser.title == "Which method helps on digits?"  # nothing ran that a record contained
    assert complaints(browser) == []
    assert requests(browser) == []


def test_a_series_can_be_switched_off_and_on_in_all_plots(browser: Chrome, page: str) -> None:
    visit(browser, page)
    before = browser.execute_script(f"return {LINES};")
    button = browser.find_element(By.CSS_SELECTOR, ".switches button[data-name='vhl(width=8)']")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    wait(browser, f"{LINES} === {before} - 2")  # the line and its band
    assert button.get_attribute("aria-pressed") == "false"
    rows = "document.querySelectorAll('#group-1-answer .ytick').length"
    wait(browser, f"{rows} === 4")  # five differences to FedAvg, without VHL's
    button.click()
    wait(browser, f"{rows} === 5")
    wait(browser, f"{LINES} === {before}")


def test_values_and_axes_can_be_chosen(browser: Chrome, page: str) -> None:
    visit(browser, page)
    selects = browser.find_elements(By.CSS_SELECTOR, "#group-1-curves select")
    value, axis = map(Select, selects)
    texts = f"document.querySelector('{CURVES}').textContent"
    assert browser.execute_script(f"return {texts}.includes('Round');")
    for label in ("Samples processed", "Megabytes sent", "Seconds"):
        axis.select_by_visible_text(label)
        wait(browser, f"{texts}.includes('{label}')")
    value.select_by_visible_text("Loss")
    wait(browser, f"{texts}.includes('Loss') && !{texts}.includes('Accuracy, %')")


def test_pictures_load(browser: Chrome, page: str) -> None:
    visit(browser, page)
    script = "return [...document.images].map((image) => [image.naturalWidth, image.alt]);"
    assert browser.execute_script(script) == [
        [60, "vhl, seed 0, virtual images that all clients share"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_window(
    browser: Chrome, page: str, width: int, scheme: str
) -> None:
    emulate(browser, width, scheme)
    visit(browser, page)
    browser.execute_script(
        "document.querySelectorAll('details').forEach((one) => one.open = true);"
    )
    assert overflow(browser) <= 0
    ground = browser.execute_script("return getComputedStyle(document.body).backgroundColor;")
    assert (ground == "rgb(255, 255, 255)") is (scheme == "light")


def test_on_a_phone_whatever_is_cut_off_shows_that_it_scrolls(browser: Chrome, page: str) -> None:
    """A shadow at the edge is a gradient in the background; headings for the ear are hidden."""
    emulate(browser, 390, "light")
    visit(browser, page)
    unfold = "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
    wide = (
        "return [...document.querySelectorAll('main *:not(.only h2)')].filter((one) =>"
        " one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible'"
        " && !(one instanceof SVGElement))"
        ".map((one) => [one.className, getComputedStyle(one).backgroundImage]);"
    )
    found = browser.execute_script(unfold + wide)
    assert sorted({name for name, _ in found} - {"switches"}) == ["scroll"]
    assert all("gradient" in background for _, background in found)


def test_an_arrow_stands_for_what_lies_outside_the_picture(browser: Chrome, page: str) -> None:
    """The interval of LG-FedAvg is 34 points wide on either side, others have one or two."""
    visit(browser, page)
    marks = "[...document.querySelectorAll('#group-1-answer .canvas .point')]"
    inside = f"return {marks}.every((one) => one.getBoundingClientRect().right < innerWidth);"
    assert browser.execute_script(inside)
    assert browser.execute_script(f"return {marks}.length;") > 5  # one per row, and arrows


def test_the_button_changes_the_colours_of_text_and_plots(browser: Chrome, page: str) -> None:
    visit(browser, page)
    tick = f"getComputedStyle(document.querySelector('{CURVES} .xtick text')).fill"
    light = browser.execute_script(f"return {tick};")
    button = browser.find_element(By.ID, "theme")
    assert button.text == "Dark"
    button.click()
    wait(browser, f"{tick} !== '{light}'")
    assert button.text == "Light"


def test_the_keyboard_reaches_everything(browser: Chrome, page: str) -> None:
    visit(browser, page)
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert 'class="skip"' in browser.execute_script(FOCUSED)
    reached = []
    for _ in range(70):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(browser.execute_script(FOCUSED))
    for part in (
        'id="theme"',
        "#group-1-answer",
        "data-name",
        "<select",
        "<summary",
        'class="scroll"',
    ):
        assert any(part in one for one in reached), part
    button = browser.find_element(By.CSS_SELECTOR, ".switches button[data-name='fedavg']")
    browser.execute_script("arguments[0].focus();", button)
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-pressed") == "false"
    outline = "return getComputedStyle(document.activeElement).outlineStyle;"
    assert browser.execute_script(outline) == "solid"


def test_every_plot_has_a_text_and_a_table(browser: Chrome, page: str) -> None:
    visit(browser, page)
    for canvas in browser.find_elements(By.CSS_SELECTOR, ".canvas"):
        assert canvas.get_attribute("role") == "img"
        assert "The numbers are in the table below" in str(canvas.get_attribute("aria-label"))
        figure = canvas.find_element(By.XPATH, "ancestor::figure")
        assert figure.find_elements(By.CSS_SELECTOR, "details table")


def test_it_prints_light_and_without_controls(browser: Chrome, page: str) -> None:
    emulate(browser, 1280, "dark")
    visit(browser, page)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    hidden = "getComputedStyle(document.querySelector('{}')).display === 'none'"
    for part in (".switches", ".controls", "nav", "#theme"):
        assert browser.execute_script(f"return {hidden.format(part)};"), part
    assert browser.execute_script("return getComputedStyle(document.body).color;") == "rgb(0, 0, 0)"
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'));")
    legend = f"document.querySelector('{CURVES} .legend')"
    wait(browser, f"{legend}?.textContent.includes('placebo of vhl')")  # in place of the buttons
    browser.execute_script("window.dispatchEvent(new Event('afterprint'));")
    wait(browser, f"!{legend}")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) > 50_000


def test_tables_and_pictures_are_there_without_javascript(browser: Chrome, page: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page)
        text = browser.find_element(By.TAG_NAME, "main").text
        assert "Plots need JavaScript" in text
        assert "71.33 ±1.53" in text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_live_page_brings_itself_up_to_date_and_keeps_its_place(
    browser: Chrome, tmp_path: Path
) -> None:
    """A round that is added appears; what is hidden, chosen, unfolded and in sight stays so."""
    write_records(plan_records(tmp_path, seeds="0"))
    (tmp_path / "comparison.json").unlink()
    run = tmp_path / "fedavg-seed0"
    whole = read_lines(run)
    write_lines(run, whole[:3])
    with serve(tmp_path) as address:
        visit(browser, address)
        wait(browser, "document.getElementById('live').textContent !== ''")
        browser.find_element(By.CSS_SELECTOR, "button[data-name='vhl(width=8)']").click()
        axis = browser.find_elements(By.CSS_SELECTOR, "#group-1-curves select")[1]
        Select(axis).select_by_visible_text("Seconds")
        fold = "document.querySelector('#group-1-curves details')"
        browser.execute_script(f"{fold}.open = true; {fold}.scrollIntoView();")
        axis.send_keys("")
        place = "document.querySelector('#group-1-classes').getBoundingClientRect().top"
        before = browser.execute_script(f"return {place};")
        lines = browser.execute_script(f"return {LINES};")
        write_lines(run, whole)
        wait(browser, f"{fold}.textContent.includes('60.00')")
        assert abs(browser.execute_script(f"return {place};") - before) <= 2
        assert browser.execute_script(f"return {fold}.open;")
        assert browser.execute_script(f"return {LINES};") == lines
        assert axis.get_attribute("value") == "3"
        button = browser.find_element(By.CSS_SELECTOR, "button[data-name='vhl(width=8)']")
        assert button.get_attribute("aria-pressed") == "false"
    wait(browser, "document.getElementById('live').textContent.includes('the server has ended')")


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve the live page of a folder on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            live = self.path == "/"
            text = render(gather([folder]), live=True) if live else json.dumps(gather([folder]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if live else "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
