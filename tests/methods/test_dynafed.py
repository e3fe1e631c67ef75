"""DynaFed."""

TINY = "dynafed(length=1, segment=1, iterations=2, steps=1, per_class=1, epochs=1, lr=0.01, accept=100, min_participants=1)"
