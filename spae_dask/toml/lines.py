"""Line numbers of the keys of a TOML document, which the standard library's parser does not tell."""

import re
import tomllib
from bisect import bisect_left

KeyPath = tuple[str | int, ...]
"""Keys and, within arrays, indices from the document down to a value."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")|' r"'''.*?'''(?!')|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'",
    re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Line, counted from 1, of every key, table header, array element and key of an inline table.

    Parameters
    ----------
    text : str
        A document that ``tomllib`` accepts; of others the answer means nothing.
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


class _Scanner:
    """Walks over the text; ``at`` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self._last: dict[KeyPath, int] = {}  # index of the last table of each array of tables
        self._ends = [found.start() for found in re.finditer("\n", text)]

    def document(self) -> None:
        table: KeyPath = ()
        while self._next():
            if self._took("[["):
                array = self._note(self._dotted(), ())
                self._last[array] = self._last.get(array, -1) + 1
                table = (*array, self._last[array])
                self.lines[table] = self._line()
                self._took("]]")
            elif self._took("["):
                table = self._note(self._dotted(), ())
                self._took("]")
            else:
                self._pair(table)

    def _pair(self, table: KeyPath) -> None:
        path = self._note(self._dotted(), table)
        self._next()
        self._took("=")
        self._next()
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        if self._took("["):
            index = 0
            while self._next() != "]":
                self.lines[(*path, index)] = self._line()
                self._value((*path, index))
                self._next()
                self._took(",")
                index += 1
            self._took("]")
        elif self._took("{"):
            while self._next() != "}":
                self._pair(path)
                self._next()
                self._took(",")
            self._took("}")
        else:
            found = _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at)
            assert found is not None
            self.at = found.end()

    def _dotted(self) -> list[str]:
        """Parts of a key, which may be bare or quoted, with dots between them."""
        parts: list[str] = []
        while True:
            self._next()
            if (found := _BARE.match(self.text, self.at)) is not None:
                parts.append(found[0])
            else:
                found = _STRING.match(self.text, self.at)
                assert found is not None, "not TOML; please report this with the file"
                parts.append(tomllib.loads(f"key = {found[0]}")["key"])
            self.at = found.end()
            self._next()
            if not self._took("."):
                return parts

    def _note(self, parts: list[str], table: KeyPath) -> KeyPath:
        """Path of a key below ``table``; its line and those of the tables it opens are noted, the first time."""
        path = table
        for number, part in enumerate(parts, start=1):
            path = (*path, part)
            self.lines.setdefault(path, self._line())
            if path in self._last and number < len(parts):
                path = (*path, self._last[path])
        return path

    def _next(self) -> str:
        """Skip space and comments; the character there, or nothing at the end."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.text[self.at : self.at + 1]

    def _took(self, token: str) -> bool:
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def _line(self) -> int:
        return bisect_left(self._ends, self.at) + 1
