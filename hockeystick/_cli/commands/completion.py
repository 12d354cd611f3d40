"""``hockeystick completion``: the script that makes a shell complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from hockeystick._cli.frame.streams import print_text

VARIABLE = "_HOCKEYSTICK_COMPLETE"  # the environment variable by which the script queries the program


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> int:
    """Print the script that makes a shell complete commands.

    \b
    Examples:
      hockeystick completion bash >> ~/.bashrc
      hockeystick completion zsh >> ~/.zshrc
      hockeystick completion fish > ~/.config/fish/completions/hockeystick.fish

    Exit status: 0.
    """
    made = get_completion_class(shell)
    assert made is not None
    # Not .source(), which for bash starts a bash to check its version; the user's own bash may be another.
    script = made(ctx.find_root().command, {}, "hockeystick", VARIABLE)
    print_text(script.source_template % script.source_vars())
    return 0
