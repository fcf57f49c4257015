"""An event loop whose time passes only while nothing else is left to do, so that a minute takes no time."""

import asyncio
import selectors


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at 0 s."""

    def __init__(self):
        super().__init__(_Selector(self))
        self.now = 0.0

    def time(self):
        return self.now

    def settle(self):
        """Run everything that is due."""
        self.run_until_complete(self._turns())

    def wait_until(self, moment):
        """Run until a moment [s], including what is due then."""
        self.run_until_complete(asyncio.sleep(moment - self.now))
        self.settle()

    def oversleep(self, moment):
        """Run nothing before a moment [s], and then everything that is due."""
        self.now = moment
        self.settle()

    def end(self):
        """Cancel all tasks, and close."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.settle()
        self.close()

    async def _turns(self):
        await asyncio.sleep(0)
        while self._ready:  # noqa: ASYNC110 it waits for nothing
            await asyncio.sleep(0)


class _Selector(selectors.SelectSelector):
    """Waits by letting the loop's time pass; there are no sockets or other threads to wait for."""

    def __init__(self, loop):
        super().__init__()
        self._loop = loop

    def select(self, timeout=None):
        assert timeout is not None, "nothing is left to do, and the test waits for it"
        self._loop.now += timeout
        return []
