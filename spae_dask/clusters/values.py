"""Kinds of values that keys of a cluster file take. A wrong value raises one ValueError that names the allowed ones.

Many of them end in lines of a job script that no quotes can protect, so they hold only characters that mean nothing
there.
"""

import re
from typing import Annotated, Any

from dask.utils import parse_bytes
from pydantic import Field, PlainValidator

from spae_dask.clusters.addresses import is_address

_WORD = re.compile(r"[A-Za-z0-9_./~@%+=:,][A-Za-z0-9_./~@%+=:,-]*")
_RESOURCES = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(,[A-Za-z_][A-Za-z0-9_.]*)*")
_BYTES = re.compile(r"\d+(\.\d+)?\s*[kKMGT]i?B", re.ASCII)

MOST = 100_000
"""Jobs, workers, cores or threads that anybody can mean."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)", re.ASCII)


def word(given: Any) -> str:
    """Return the text, if a job script can hold it without quotes."""
    if isinstance(given, str) and _WORD.fullmatch(given):
        return given
    raise ValueError("give a string of letters, digits and _ . / ~ @ % + = : , - without spaces, not starting with -.")


def _resources(given: Any) -> str:
    if isinstance(given, str) and _RESOURCES.fullmatch(given):
        return given
    raise ValueError("give names of resources with commas between, such as 'h_vmem' or 'h_rss,mem_free'.")


def _option(given: Any) -> str:
    if isinstance(given, str) and given.startswith("-") and given.isprintable() and given.isascii():
        return given
    raise ValueError("give each option as its own string on one line, such as '--constraint=icelake'.")


def _line(given: Any) -> str:
    if isinstance(given, str) and given.strip() and given.isprintable():
        return given
    raise ValueError("give a string of at least one character, on one line.")


def _folder(given: Any) -> str:
    if (text := _line(given)).startswith(("$", "~")):
        raise ValueError(
            "no shell expands variables or ~ in it. Give the path itself, such as '/scratch'. Without it, "
            "each job uses its temporary folder, which TMPDIR may name."
        )
    return text


def _bytes(given: Any) -> int:
    if isinstance(given, str) and _BYTES.fullmatch(given) and (nbytes := int(parse_bytes(given))) > 0:
        return nbytes
    raise ValueError("give a number of bytes with its unit, such as '4GB' or '512MiB'.")


def _planned_bytes(given: Any) -> int:
    try:
        return 0 if given == "plan" else _bytes(given)
    except ValueError as error:
        raise ValueError(f"{str(error).rstrip('.')}; or 'plan', for the memory that the plan needs.") from error


def _seconds(given: Any) -> int:
    text = given if isinstance(given, str) else ""
    if found := re.fullmatch(r"([0-9]+)([smhd])", text):
        seconds = int(found[1]) * _SECONDS[found[2]]
    elif found := _CLOCK.fullmatch(text):
        days, hours, minutes, rest = (int(each or 0) for each in found.groups())
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    else:
        seconds = 0
    if 0 < seconds <= 366 * 86400:
        return seconds
    raise ValueError("give a time such as '90s', '30m', '12h', '2d' or '12:00:00'.")


def _address(given: Any) -> str:
    if isinstance(given, str) and is_address(given):
        return given
    raise ValueError("give the address of a scheduler, such as 'tcp://10.0.0.5:8786' or 'tls://10.0.0.5:8786'.")


def _environment(given: Any) -> dict[str, str]:
    if isinstance(given, dict) and all(
        re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and isinstance(value, str) and "\0" not in value
        for name, value in given.items()
    ):
        return dict(given)
    raise ValueError("give names of variables (letters, digits and _) with strings, such as { OMP_NUM_THREADS = '1' }.")


def _kubernetes_name(given: Any) -> str:
    if isinstance(given, str) and re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?", given):
        return given
    raise ValueError("give at most 53 small letters, digits and '-', beginning and ending with a letter or digit.")


def _mount_path(given: Any) -> str:
    if (
        isinstance(given, str)
        and given.isprintable()
        and re.fullmatch(r"/[^:]+", given)
        and ".." not in given.split("/")
    ):
        return given
    raise ValueError("give an absolute path without ':' and '..', such as '/data'.")


def _label_key(given: Any) -> str:
    if isinstance(given, str) and _LABEL_KEY.fullmatch(given):
        return given
    raise ValueError("give the key of a label, such as 'disktype' or 'example.org/pool'.")


def _label_value(given: Any) -> str:
    if isinstance(given, str) and _LABEL_VALUE.fullmatch(given):
        return given
    raise ValueError("give at most 63 letters, digits and _ . -, beginning and ending with a letter or digit.")


def _labels(given: Any) -> dict[str, str]:
    if isinstance(given, dict):
        return {_label_key(key): _label_value(value) for key, value in given.items()}
    raise ValueError("give labels with strings, such as { disktype = 'ssd' }.")


Count = Annotated[int, Field(ge=1, le=MOST)]
Amount = Annotated[int, Field(ge=0, le=MOST)]
Word = Annotated[str, PlainValidator(word)]
"""A word that neither a shell nor a batch system takes for more than one."""
Resources = Annotated[str, PlainValidator(_resources)]
"""Resources of Grid Engine that limit memory, with commas between several."""
Option = Annotated[str, PlainValidator(_option)]
"""An option of the batch system, which reads it itself: no shell does."""
Line = Annotated[str, PlainValidator(_line)]
Folder = Annotated[str, PlainValidator(_folder)]
Bytes = Annotated[int, PlainValidator(_bytes)]
PlannedBytes = Annotated[int, PlainValidator(_planned_bytes)]
"""Bytes, or 0 for as many as the plan takes."""
Seconds = Annotated[int, PlainValidator(_seconds)]
Address = Annotated[str, PlainValidator(_address)]
Environment = Annotated[dict[str, str], PlainValidator(_environment)]
KubernetesName = Annotated[str, PlainValidator(_kubernetes_name)]
LabelKey = Annotated[str, PlainValidator(_label_key)]
LabelValue = Annotated[str, PlainValidator(_label_value)]
Labels = Annotated[dict[str, str], PlainValidator(_labels)]
MountPath = Annotated[str, PlainValidator(_mount_path)]


def clock(seconds: int) -> str:
    """``HH:MM:SS``, with as many hours as there are, which every batch system takes."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def mebibytes(nbytes: int) -> str:
    """Return the bytes in the notation of Kubernetes, rounded up."""
    return f"{-(-nbytes // (1 << 20))}Mi"
