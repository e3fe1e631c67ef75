"""Rounds of FedMD-CG, and of methods that share less, beside FedAvg's."""

from experiments.bench.app import benchmark, compare_rounds, out


@benchmark
def fedmd_cg(dataset: str = "fashion-mnist", data_dir: str = "", rounds: int = 3) -> None:
    """Compare rounds of FedMD-CG, and of methods that share less, with FedAvg's: time and bytes.

    The paper says that its round takes two to three times as long. Ten clients, 20 local steps.
    Times are processor seconds of one process with one thread, evaluation of the local models
    included, so that a busy machine hardly matters.

    Options:
        dataset: 28x28 or larger; Fashion-MNIST is the reference.
        data_dir: Where to look for it.
        rounds: Rounds that are measured.
    """
    settings = {"dataset": dataset, "data_dir": data_dir, "clients": 10, "local_steps": 20}
    settings |= {"partition": "iid", "model": "lenet-bn", "lr": 0.05, "batch_size": 64}
    settings |= {"server_threads": 1, "local_evaluation": True, "eval_every": rounds + 1}
    lines = ("fedavg", "lg-fedavg", "fedmd-cg(aggregation='ave')", "fedmd-cg")
    out.print(compare_rounds(settings, dict(zip(lines, lines, strict=True)), rounds))
