"""Write this folder's programs into template.yaml: each after the comment `# From instance/FILE:`.

`python -m instance` writes them, and `python -m instance --check` fails if the template differs from the files.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

_FOLDER = Path(__file__).parent
_TEMPLATE = _FOLDER.parent / "template.yaml"
_COMMENT = r"^(?P<indent> *)# From instance/(?P<file>\S+):\n"
_BLOCK = re.compile(rf"(?P<head>{_COMMENT}(?P=indent)\S.*\|\n)(?:\n*(?P=indent) +\S.*\n)*", re.MULTILINE)
_HEREDOC = re.compile(
    rf"(?P<head>{_COMMENT}(?P=indent)cat .*<<'(?P<end>\w+)'\n)(?:.*\n)*?(?=(?P=indent)(?P=end)\n)", re.MULTILINE
)


def embed(template: str, folder: Path = _FOLDER) -> str:
    """Return the template with the current text of each program.

    Raises:
        ValueError: A program in a here-document has text that CloudFormation would substitute.
    """

    def block(place: re.Match[str]) -> str:
        return place["head"] + textwrap.indent((folder / place["file"]).read_text("utf-8"), place["indent"] + "  ")

    def heredoc(place: re.Match[str]) -> str:
        text = (folder / place["file"]).read_text("utf-8")
        if "${" in text:  # here-documents are in user data, which is the operand of Fn::Sub
            raise ValueError(
                f"instance/{place['file']}: CloudFormation would substitute ${{...}}: pass it as a variable"
            )
        return place["head"] + textwrap.indent(text, place["indent"])

    return _HEREDOC.sub(heredoc, _BLOCK.sub(block, template))


def main(arguments: list[str], path: Path = _TEMPLATE) -> str | None:
    """Write or check the template, and return an error message, None for success."""
    template = path.read_text("utf-8")
    embedded = embed(template)
    if embedded != template:
        if arguments == ["--check"]:
            return f"{path.name} differs from instance/: `make template` writes it"
        path.write_text(embedded, "utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
