"""The service that serves the dashboard."""

from jobs.dashboard.server import serve_dashboard
from jobs.stopping import stop_signals
from quota.callbacks.loading import check_callbacks
from quota.settings import Settings


def run_dashboard(settings: Settings) -> None:
    """Serve the page until Ctrl-C or SIGTERM, also in the background of a shell, which ignores SIGINT there."""
    check_callbacks(settings.quota.callbacks)
    with stop_signals() as stop, serve_dashboard(settings) as url:
        print(f"dashboard at {url}", flush=True)
        stop.wait()
