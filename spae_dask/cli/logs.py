"""Logs of this package and of distributed, on the screen as ``-v`` and ``-vv`` ask for."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import distributed  # noqa: F401 - sets up handlers of its own when imported, which are replaced here

from spae_dask.cli.screen import Screen

LOGGERS = ("spae_dask", "distributed", "distributed.client", "asyncio")
LEVELS = (logging.CRITICAL, logging.INFO, logging.DEBUG)
"""Log levels, by the number of times ``-v`` is given. Without it the command itself reports errors, once."""


class _ScreenHandler(logging.Handler):
    """Writes records to the screen, so that they do not cut through a progress bar."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self.screen = screen
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.screen.log(self.format(record), record.levelname.lower())


@contextmanager
def logs_on(screen: Screen) -> Iterator[None]:
    """Route the loggers to the screen while the ``with`` block runs."""
    handler = _ScreenHandler(screen)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(LEVELS[min(screen.verbose, len(LEVELS) - 1)])
    try:
        yield
    finally:
        for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
