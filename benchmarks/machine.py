"""What the numbers were measured on."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil
import threadpoolctl

PACKAGES = ("spae-dask", "numpy", "scipy", "zarr", "numcodecs", "dask", "distributed")


def describe_machine() -> list[str]:
    """Lines of text: processor, memory, load, versions."""
    memory = psutil.virtual_memory().total / 2**30
    blas = sorted({f"{lib['internal_api']} {lib['version']}" for lib in threadpoolctl.threadpool_info()})
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return [
        f"{_processor()}, {psutil.cpu_count(logical=False)} cores ({psutil.cpu_count()} threads), {memory:.0f} GiB",
        f"load average of the last minute {load:.1f} before the first measurement",
        f"{platform.system()}, Python {platform.python_version()}, {', '.join(blas)}",
        ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    ]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
