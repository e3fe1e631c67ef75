

def local_models(folder: Path, round_number: int) -> list[tuple[int, Arrays]]:
    """(examples, weights) of every client's last local model up to a round, in partition order: for a host that has them all."""
    found: list[tuple[int, Arrays]] = []
    for client in sorted(folder.glob("client-*")):
        memory = Memory(client, round_number + 1)
        arrays, examples = memory.get(LOCAL_MODEL), memory.get(LOCAL_EXAMPLES)
        if arrays is not None and examples is not None:
            found.append((int(examples[0][0]), arrays))
    return found
