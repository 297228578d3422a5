# SPDX-License-Identifier: Apache-2.0
"""Threads and asyncio tasks, for the claims of several libraries."""

import asyncio
import threading


def in_thread(function):
    """Returns function(), or raises its exception, from a new thread."""
    result = {}

    def run():
        try:
            result["value"] = function()
        except BaseException as error:
            result["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if "error" in result:
        raise result["error"]
    return result["value"]


def two_tasks(enter, current, first, second):
    """Two tasks, each inside its own stream, that let each other run.

    Returns what the first one sees as current after its await, and what the thread
    has as current when both have ended.
    """
    seen = {}

    async def work(name, stream):
        with enter(stream):
            await asyncio.sleep(0)
            seen[name] = current()

    async def main():
        await asyncio.gather(work("first", first), work("second", second))

    asyncio.run(main())
    return seen["first"], current()
