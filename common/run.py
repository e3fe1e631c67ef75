"""What follows from a configuration once the data are known, the same on both sides."""

from common.config import RunConfig
from common.data.partitions import check
from common.data.types import DataSet
from common.errors import ConfigurationError
from common.models import Model, build
from common.seeds import derive
from common.task import TASKS, Task


def blueprint(config: RunConfig, shape: tuple[int, int, int], classes: int) -> Model:
    """The run's model with the weights that its seed gives, widened by what the methods add to the head."""
    extra = sum(method.extra_outputs(classes) for method in config.method_list)
    return build(config.model_params, shape, classes, extra, derive(config.seed, "model"))


def check_with_data(config: RunConfig, dataset: DataSet) -> Task:
    """All that can be wrong once the data are known, said at once; returns the task."""
    problems = check(config.partition_params, config.clients, len(dataset.classes), len(dataset.train), dataset.task)
    for attempt in (lambda: task_of(config, dataset), lambda: blueprint(config, dataset.shape, len(dataset.classes))):
        try:
            attempt()
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError(problems)
    return task_of(config, dataset)


def task_of(config: RunConfig, dataset: DataSet) -> Task:
    """The task that the run asks for, which must be one that the labels can serve."""
    name = dataset.task if config.task == "auto" else config.task
    problems = []
    if name != dataset.task:
        problems.append(
            f"task={name!r}, but the labels of {dataset.name} are {dataset.task}; write task='auto' or choose other data"
        )
    if name == "multi-label":
        single = [method.name for method in config.method_list if method.single_label_only]
        problems += [f"methods: {method} is not defined for multi-label tasks such as {dataset.name}" for method in single]
    if problems:
        raise ConfigurationError(problems)
    return TASKS[name]


def appearance(dataset: DataSet) -> dict[str, str | int]:
    """What server and nodes compare of their data; nothing that depends on a single record of a node's own."""
    return {"fingerprint": dataset.fingerprint, "shape": "x".join(map(str, dataset.shape)), "classes": len(dataset.classes)}
