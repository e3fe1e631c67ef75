"""What the command `fedmirage` calls. Interrupts are taken over before anything else is loaded."""

import contextlib
import os
import sys

from experiments.interrupts import interruptions


def main() -> None:
    """Do what was typed, with an exit code that is true: 130 for all that was interrupted."""
    interruptions.install()
    try:
        from experiments.cli import carry_out

        carry_out()
    except BaseException as error:  # an import that was interrupted may raise anything
        done = isinstance(error, SystemExit) and not error.code
        if done or not interruptions.seen:
            raise
        with contextlib.suppress(OSError):  # the terminal may be closed
            if not interruptions.told:
                text = "interrupted before the run began; the same command starts it again"
                print(text, file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
        # Python itself would exit with another code if the interrupt came while a text was executed
        # as code, as dataclasses do, though it was caught here.
        os._exit(130)


if __name__ == "__main__":
    main()
