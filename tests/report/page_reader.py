"""Reads a page with the standard library's parser, so that tests look at what a browser would."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "img", "source", "br", "hr", "link", "input"}
URLS = {"src", "srcset", "href", "action", "data", "poster"}


@dataclass
class Table:
    """A table by its headings."""

    caption: str = ""
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=dict)


class PageReader(HTMLParser):
    """Collects what tests ask about, and notes what is not well-formed or not self-contained."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.errors: list[str] = []
        self.title = ""
        self.headings: list[str] = []
        self.alts: list[str] = []
        self.sources: list[str] = []
        self.numbers: list[tuple[float, str]] = []
        self.tables: list[Table] = []
        self.text = ""
        self.scripts: list[str] = []
        self.levels: list[int] = []
        self.policy = ""
        self._scope = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        for name in URLS & given.keys():
            if not given[name].startswith("data:image/"):
                self.errors.append(f"{tag} {name}={given[name][:60]}")
            self.sources.append(given[name])
        if tag in ("link", "iframe", "object"):
            self.errors.append(f"<{tag}>")
        self.errors += [f"{tag} {name}" for name in given if name.startswith("on")]
        if tag == "script":
            self.scripts.append("")
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag in ("h1", "h2", "h3", "h4"):
            self.levels.append(int(tag[1]))
        if tag == "img":
            self.alts.append(given.get("alt", ""))
        if tag in ("h1", "h2"):
            self.headings.append("")
        if tag == "data":
            self.numbers.append((float(given["value"]), ""))
        if tag == "table":
            self.tables.append(Table())
        if tag == "th":
            self._scope = given.get("scope")
            if self._scope == "col":
                self.tables[-1].columns.append("")
            elif self._scope == "row":
                self.tables[-1].rows[""] = []
            else:
                self.errors.append("th without scope")
        if tag == "td":
            last = next(reversed(self.tables[-1].rows))
            self.tables[-1].rows[last].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"</{tag}> does not close what is open")

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.text += data
        if "title" in self.open:
            self.title += data
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings[-1] += data
        if self.open and self.open[-1] == "data":
            value, text = self.numbers[-1]
            self.numbers[-1] = (value, text + data)
        if "caption" in self.open:
            self.tables[-1].caption += data
        elif "th" in self.open and self._scope == "col":
            self.tables[-1].columns[-1] += data
        elif "th" in self.open:
            rows = self.tables[-1].rows
            last = next(reversed(rows))
            rows[last + data] = rows.pop(last)
        elif "td" in self.open:
            rows = self.tables[-1].rows
            rows[next(reversed(rows))][-1] += data


def read_page(html: str, *, scripts: int = 0) -> PageReader:
    """Parse a whole page, which may have so many scripts."""
    reader = PageReader()
    reader.feed(html)
    reader.close()
    reader.errors.extend(f"<{tag}> is never closed" for tag in reader.open)
    if len(reader.scripts) != scripts:
        reader.errors.append(f"{len(reader.scripts)} scripts")
    if "http:" in html or "https:" in html or "url(" in html or "@import" in html:
        reader.errors.append("an address outside the page")
    return reader
