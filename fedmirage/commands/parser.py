"""How the command line reads what was typed, where Typer's own behaviour does not suffice."""

import inspect
import re
from typing import Any, get_type_hints

import click
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.models import ArgumentInfo

from fedmirage.common.settings.language import nearest
from fedmirage.common.settings.renamed import present_name

DEFAULT = re.compile(r"default: \(([^()]*)\)\]")
LEFT = 26  # columns for the names of options; longer ones have a line of their own


def plain(told: str) -> str:
    """Undo what protects a bracket from Rich, and Typer's parentheses round a default in words."""
    return DEFAULT.sub(r"default: \1]", told.replace("\\[", "["))


class Commands(TyperGroup):
    """The commands by name, in upper or lower case; a typo is answered with the nearest names."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        name = args[0].lower()
        if name not in self.commands and not ctx.resilient_parsing and not name.startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}{nearest(name, self.commands)}")
        return super().resolve_command(ctx, [name, *args[1:]])


class Command(TyperCommand):
    """A command whose help is its docstring in whole paragraphs, and explains each argument.

    click 8.5 loses the help that Typer 0.20 sets for positional arguments, so it is read from the
    function's signature again.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        paragraphs = (self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        hints = get_type_hints(inspect.unwrap(self.callback or (lambda: None)), include_extras=True)
        for argument in self.params:
            if isinstance(argument, TyperArgument) and not argument.help:
                extras = getattr(hints.get(str(argument.name)), "__metadata__", ())
                told = [extra.help for extra in extras if isinstance(extra, ArgumentInfo)]
                argument.help = next(iter(told), None)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help in two columns: Rich's four leave no room for sentences at 80 columns."""
        click.Command.format_help(self, ctx, formatter)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, which the usage line names."""
        arguments = [one for one in self.get_params(ctx) if isinstance(one, TyperArgument)]
        records = [record for one in arguments if (record := one.get_help_record(ctx))]
        if records:
            with formatter.section("Arguments"):
                formatter.write_dl([(name, plain(told)) for name, told in records])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the headings of their panels."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record and not isinstance(option, TyperArgument):
                panel = getattr(option, "rich_help_panel", None) or "Options"
                panels.setdefault(panel, []).append((record[0], plain(record[1])))
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records, col_max=LEFT)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was typed; a flag's former name is answered with its present one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            no = "no-" if error.option_name.startswith("--no-") else ""
            name = present_name(error.option_name.removeprefix("--").removeprefix(no))
            if name is None:
                raise
            ctx.fail(f"{error.option_name} is now --{no}{name}")


class RunCommand(Command):
    """`run`, in which --secagg needs no value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was typed, with "on" inserted after a bare --secagg."""
        following = [*args[1:], "--"]
        spelled = [
            [arg, "on"] if arg == "--secagg" and after.startswith("-") else [arg]
            for arg, after in zip(args, following, strict=False)
        ]
        return super().parse_args(ctx, [arg for pair in spelled for arg in pair])
