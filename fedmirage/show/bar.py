"""The progress bar of a command: in a terminal, in a notebook, or none."""

import contextlib
import threading
from collections.abc import Sequence
from html import escape
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TaskID


def is_interactive(console: Console) -> bool:
    """Whether a bar can move here; elsewhere, lines take its place."""
    return console.is_terminal or console.is_jupyter


def make_bar(console: Console, *columns: ProgressColumn, unit: str = "rounds") -> Progress:
    """Make a bar of these columns, or one for a notebook; without either, it shows nothing."""
    if console.is_jupyter:
        return NotebookBar(console, unit)
    return Progress(*columns, console=console, disable=not console.is_terminal)


class Follower:
    """Shows what happens elsewhere: looks again and again, in a thread, until it is left."""

    pause = 0.5  # seconds between two looks

    def __init__(
        self, console: Console, text: str, total: int, columns: Sequence[ProgressColumn]
    ) -> None:
        self.console = console
        self.progress = make_bar(console, *columns)
        self.task = self.progress.add_task(text, total=total)
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def look(self) -> None:
        """Show what is new."""

    def __enter__(self) -> Self:
        self.progress.start()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        with contextlib.suppress(OSError):  # the terminal may be closed
            self.thread.join()
            self.progress.stop()

    def _follow(self) -> None:
        while not self.stopped.wait(self.pause):
            self.look()
        self.look()


class NotebookBar(Progress):
    """A bar of HTML that replaces itself.

    Rich's own bar needs ipywidgets in a notebook; this one needs what every kernel has.
    """

    def __init__(self, console: Console, unit: str) -> None:
        self.handle: Any = None
        self.unit = unit
        super().__init__(console=console, disable=True)  # Rich itself draws nothing

    def start(self) -> None:
        """Show the bar under the cell."""
        from IPython.display import display

        if not self.console.quiet:
            self.handle = display(  # type: ignore[no-untyped-call]
                self.draw(), raw=True, display_id=True
            )

    def stop(self) -> None:
        """Leave the bar as it is."""
        self.refresh()
        self.handle = None

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change the bar and show it."""
        super().update(task_id, **changes)
        self.refresh()

    def refresh(self) -> None:
        """Show the bar as it is now."""
        if self.handle is not None:
            self.handle.update(self.draw(), raw=True)

    def draw(self) -> dict[str, str]:
        """Draw the bar as HTML and as text."""
        (task,) = self.tasks
        done, total = f"{task.completed:g}", f"{task.total or 0:g}"
        text = f"{done}/{total} {self.unit} · {task.description} · {task.elapsed or 0:.0f} s"
        bar = f'<progress value="{done}" max="{total}" style="width: 16em"></progress>'
        return {"text/html": f"<div>{bar} {escape(text)}</div>", "text/plain": text}
