"""The package's docstrings, which are written to be read in a terminal, as reStructuredText.

A formula is an indented block and becomes literal text. Parameters are "name : shape and meaning" and become a list.
Everything that markup would take for itself (h_, |x|, *) is escaped outside of quotes.
"""

from __future__ import annotations

import re

SECTIONS = ("Parameters", "Attributes", "Returns", "Notes", "Examples", "Raises", "Yields")
LISTS = ("Parameters", "Attributes", "Raises")
_QUOTED = re.compile(r"(``.+?``|:\w+:`[^`]+`|`[^`]+`)")


def process(app, what, name, obj, options, lines) -> None:
    """Sphinx's hook autodoc-process-docstring: changes ``lines`` in place."""
    lines[:] = convert(lines)


def convert(lines: list[str]) -> list[str]:
    out: list[str] = []
    for section, body in _split(lines):
        if section:
            out += ["", f".. rubric:: {section}", ""]
        if section in LISTS:
            for name, text in _entries(body):
                out += [f"- **{escape(name)}** {escape(text)}".rstrip(), ""]
        else:
            out += _text(body)
    return out


def escape(text: str) -> str:
    """Markup characters escaped, except within quotes; a single quote `x` is a parameter."""
    parts = _QUOTED.split(text)
    for k, part in enumerate(parts):
        if k % 2 == 0:
            parts[k] = re.sub(r"([\\*|_`])", r"\\\1", part)
        elif part.startswith("`") and not part.startswith("``"):
            parts[k] = f"`{part}`"
    return "".join(parts)


def _split(lines: list[str]) -> list[tuple[str, list[str]]]:
    """(section, its lines) in their order; the text before the first section has no name."""
    sections: list[tuple[str, list[str]]] = [("", [])]
    k = 0
    while k < len(lines):
        underlined = k + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[k + 1].strip())
        if underlined and lines[k].strip() in SECTIONS:
            sections.append((lines[k].strip(), []))
            k += 2
        else:
            sections[-1][1].append(lines[k])
            k += 1
    return sections


def _entries(body: list[str]) -> list[tuple[str, str]]:
    """(name, text) of "name : text", with the lines that go on indented."""
    entries: list[tuple[str, str]] = []
    for line in body:
        if not line.strip():
            continue
        if line[0] != " ":
            name, _, text = line.partition(" : ")
            entries.append((name.strip(), text.strip()))
        elif entries:
            name, text = entries[-1]
            entries[-1] = (name, f"{text} {line.strip()}".strip())
    return entries


def _text(body: list[str]) -> list[str]:
    """Paragraphs escaped; blocks that are indented, or examples, literal."""
    out: list[str] = []
    literal = False
    for line in body:
        indented = line.startswith("    ") or line.startswith(">>>") or (literal and line.strip() and line[0] == " ")
        example = bool(re.match(r">>> |\.\.\. ", line))
        if not line.strip():
            out.append("")
        elif example or indented or (literal and out and out[-1] != ""):
            if not literal:
                out += ["", "::", ""]
            out.append("    " + line)
            literal = True
        else:
            if literal:
                out.append("")
            out.append(_bullet(line))
            literal = False
    return [*out, ""]


def _bullet(line: str) -> str:
    mark = "- " if line.startswith("- ") else ""
    return mark + escape(line.removeprefix("- "))
