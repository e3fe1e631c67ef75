"""The entry point of the command `fedmirage`.

It handles interrupts before anything else is loaded, because loading takes seconds.
"""

import contextlib
import os
import sys

from fedmirage.runtimes.interrupts import interruptions


def main() -> None:
    """Do the command that was typed; whatever was interrupted exits with code 130."""
    interruptions.install()
    try:
        from fedmirage.cli import carry_out

        carry_out()
    except BaseException as error:  # an import that was interrupted may raise anything
        done = isinstance(error, SystemExit) and not error.code
        if done or not interruptions.seen:
            raise
        with contextlib.suppress(OSError):  # the terminal may be closed
            if not interruptions.told:
                runs = {"run", "compare", "rehearse", "reproduce", "submit"} & set(sys.argv[1:2])
                before = " before the run began; the same command starts it again"
                print(f"interrupted{before if runs else ''}", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
        # If the interrupt came while a text was executed as code, as dataclasses do, Python itself
        # would exit with another code, although the interrupt was caught here.
        os._exit(130)


if __name__ == "__main__":
    main()
