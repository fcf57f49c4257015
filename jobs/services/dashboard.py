"""The service that serves the dashboard."""

import threading

from jobs.dashboard.server import serve_dashboard
from quota.callbacks.loading import check_callbacks
from quota.settings import Settings


def run_dashboard(settings: Settings) -> None:
    """Serve the page until interrupted.

    Raises:
        BadInput: the server cannot listen there, or a setting is invalid.
        KeyboardInterrupt: Ctrl-C or SIGTERM, after the server has stopped.
    """
    check_callbacks(settings.quota.callbacks)
    with serve_dashboard(settings) as url:
        print(f"dashboard at {url}", flush=True)
        threading.Event().wait()
