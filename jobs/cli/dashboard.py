"""`mutation-quota dashboard`: serves the live page."""

from jobs.cli.options import KafkaOptions


def dashboard(*, kafka: KafkaOptions) -> None:
    """Serve a live page of load, tenants and decisions.

    It reads only the topics, and needs neither Spark nor the tables. Ctrl-C stops it.

    Examples:
      mutation-quota dashboard --bootstrap-server kafka:9092
      mutation-quota dashboard --set dashboard.address=10.1.2.3 --set dashboard.token_file=token
    """
    settings = kafka.read()
    from jobs.dashboard.server import serve_dashboard
    from jobs.signals import stop_signals
    from quota.callbacks.instance import check_callbacks

    check_callbacks(settings.quota.callbacks)
    with stop_signals() as stop, serve_dashboard(settings, ended=stop) as url:  # also SIGTERM
        print(f"dashboard at {url}", flush=True)
        stop.wait()
