"""What follows from a configuration once the data are known, the same on both sides."""

from common.data.partitions import check
from common.data.set import DataSet
from common.errors import ConfigurationError
from common.learning.task import TASKS, Task
from common.models import Model, build
from common.seeds import derive
from common.settings.config import RunConfig
from common.wire.sharing import shared_positions
from common.wire.weights import names, parameter_mask


def blueprint(config: RunConfig, shape: tuple[int, int, int], classes: int) -> Model:
    """The run's model with the weights that its seed gives, widened by what the methods add to the
    head."""
    extra = sum(method.extra_outputs(classes) for method in config.method_list)
    return build(config.model_params, shape, classes, extra, derive(config.seed, "model"))


def check_with_data(config: RunConfig, dataset: DataSet) -> Task:
    """All that can be wrong once the data are known, said at once; returns the task."""
    problems = check(
        config.partition_params,
        config.clients,
        len(dataset.classes),
        len(dataset.train),
        dataset.task,
    )
    for attempt in (lambda: task_of(config, dataset), lambda: check_model(config, dataset)):
        try:
            attempt()
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems)
    return task_of(config, dataset)


def check_model(config: RunConfig, dataset: DataSet) -> None:
    """The model can be built, and what is shared of it is as privacy needs it."""
    model = blueprint(config, dataset.shape, len(dataset.classes))
    every, trainable = names(model), parameter_mask(model)
    statistics = [
        every[position]
        for position in shared_positions(every, config.method_list)
        if not trainable[position]
    ]
    if statistics and config.dp_params.active:
        raise ConfigurationError(
            [
                f"dp: model={config.model!r} would share {statistics[0]!r}, statistics of the"
                " clients' data that no noise covers; choose a model without batch norm, such as"
                ' simple-cnn, convnet, or resnet10(norm="group")'
            ]
        )


def task_of(config: RunConfig, dataset: DataSet) -> Task:
    """The task that the run asks for, which must be one that the labels can serve."""
    name = dataset.task if config.task == "auto" else config.task
    problems = []
    if name != dataset.task:
        problems.append(
            f"task={name!r}, but the labels of {dataset.name} are {dataset.task}; write task='auto'"
            " or choose other data"
        )
    if name == "multi-label":
        problems += [
            f"methods: {method.name} is not defined for multi-label tasks such as {dataset.name}:"
            f" {method.single_label_because}; leave it out or choose other data"
            for method in config.method_list
            if method.single_label_because
        ]
    if problems:
        raise ConfigurationError(problems)
    return TASKS[name]


def appearance(dataset: DataSet) -> dict[str, str | int]:
    """What server and nodes compare of their data; nothing that depends on a single record of a
    node's own."""
    return {
        "fingerprint": dataset.fingerprint,
        "shape": "x".join(map(str, dataset.shape)),
        "classes": len(dataset.classes),
    }
