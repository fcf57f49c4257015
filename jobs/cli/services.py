"""The commands that run the jobs, the live page, the embedded broker, everything at once, and the demo."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.options import ConfirmOptions, KafkaOptions, Once, SettingsOptions, TargetOptions
from jobs.installation import check_extras
from quota.errors import BadInput
from quota.settings import Settings
from quota.settings.types import MAX_PORT
from quota.text import plural

_FULL = "full buckets from the oldest request"

TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="Do not wait until the lease of a job that was killed on another machine expires."
    ),
]


def broker(
    port: Annotated[int, typer.Option(min=0, max=MAX_PORT, metavar="N", help="Port; 0 for any free one.")] = 9092,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data folder. Default: <storage.root>/broker."),
    ] = None,
    *,
    where: SettingsOptions,
) -> None:
    """Run a Kafka broker for trials and tests.

    Creates the topics, listens on 127.0.0.1 only, and prints `ready HOST:PORT` when clients can connect. It is a
    cluster of one node; for several, use a Kafka of your own.

    Examples:
      mutation-quota broker
      mutation-quota broker --port 0 --data /tmp/broker
    """
    from jobs.sandbox.broker import embedded_broker
    from jobs.signals import stop_signals

    with embedded_broker(where.read(), port, data) as running, stop_signals() as stop:
        print(f"ready {running.address}", flush=True)
        while not stop.is_set():
            running.check()
            stop.wait(0.2)


def enforce(
    once: Once = False,
    reset_state: Annotated[
        bool,
        typer.Option(
            "--reset-state",
            help="Discard the state: start with full buckets from the oldest request, which forgives all debts. "
            "The old checkpoint is set aside.",
        ),
    ] = False,
    buckets: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --reset-state: load buckets from a `buckets export` file, and resume after it.",
        ),
    ] = None,
    take_over: TakeOver = False,
    *,
    confirmation: ConfirmOptions,
    kafka: KafkaOptions,
) -> None:
    """Decide requests: read them, write decisions.

    Reads the request topic and writes decisions and dead letters to their topics. Runs until it is stopped. With
    --set enforce.with_audit=true it runs the audit as well. A second process on the same storage root stands by, and
    takes over when the first one ends.

    Examples:
      mutation-quota enforce --bootstrap-server broker:9092
      mutation-quota enforce --reset-state --buckets buckets.jsonl --yes
    """
    if buckets and not reset_state:
        raise BadInput(f"--buckets {buckets}: only with --reset-state")
    if confirmation.dry_run and not reset_state:
        raise BadInput("--dry-run: only with --reset-state")
    settings = kafka.read()
    if reset_state:
        confirmation.check()
        if confirmation.dry_run:
            _print_reset(settings, buckets)
            return
        with_what = f"the buckets of {buckets}" if buckets else _FULL
        confirmation.confirm(f"Discard the state in {settings.storage.root}, and start with {with_what}?")
    from jobs.services.streaming import run_enforce

    run_enforce(settings, once=once, reset=reset_state, buckets=buckets, take_over=take_over)


def _print_reset(settings: Settings, buckets: Path | None) -> None:
    from jobs.services.streaming import preview_reset

    folder, count = preview_reset(settings, buckets)
    with_what = _FULL if count is None else f"{plural(count, 'bucket')} of {buckets}"
    aside = f"set the checkpoint {folder} aside, and " if folder else ""
    print(f"Would {aside}start with {with_what}.")
    if not folder:
        print(f"There is no checkpoint of enforce in {settings.storage.root}.")


def audit(once: Once = False, take_over: TakeOver = False, *, kafka: KafkaOptions) -> None:
    """Write decisions and changes to Delta tables.

    Stores every decision, dead letter and quota change. Runs until it is stopped.

    Examples:
      mutation-quota audit --bootstrap-server broker:9092
      mutation-quota audit --once
    """
    from jobs.services.streaming import run_audit

    run_audit(kafka.read(), once=once, take_over=take_over)


def applier(once: Once = False, *, kafka: TargetOptions) -> None:
    """Carry out admitted mutations on the cluster.

    Creates, grows and deletes topics as decided, each once, and writes the results to the results topic. If several
    appliers have the same group, only the one started last is active.

    Examples:
      mutation-quota applier --bootstrap-server broker:9092
      mutation-quota applier --once
    """
    from jobs.services.loops import run_apply

    run_apply(kafka.read(), once=once)


def gateway(*, kafka: TargetOptions) -> None:
    """Serve Kafka's protocol to unmodified clients.

    Clients connect to the gateway instead of the brokers, which still authenticate them. The gateway forwards their
    requests; those that create, grow or delete topics wait for their decision first. It prints `ready HOST:PORT` when
    clients can connect. Clients on other machines need gateway.advertised_host; gateway.when_silent says whether
    changes fail or proceed while enforce does not respond.

    Examples:
      mutation-quota gateway --bootstrap-server broker:9092
      mutation-quota gateway --set gateway.address=10.0.0.5
    """
    from jobs.services.gateway import run_gateway

    run_gateway(kafka.read())


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


def run(*, kafka: KafkaOptions) -> None:
    """Run everything at once.

    Prints the URL of a live dashboard, and totals every five seconds.

    Without a server, it starts a broker, the jobs, the dashboard, a gateway and five tenants that send requests. With
    --bootstrap-server (kafka.bootstrap_servers), it starts the jobs and the dashboard only. Ctrl-C stops everything.

    Examples:
      mutation-quota run
      mutation-quota run --bootstrap-server broker:9092 --set storage.root=/tmp/run
    """
    settings = kafka.read()
    embedded = "bootstrap_servers" not in settings.kafka.model_fields_set
    check_extras("run", "spark", *(["broker"] if embedded else []))
    from jobs.sandbox.run import run_everything

    run_everything(settings)


def demo(*, where: SettingsOptions) -> None:
    """Run KIP-599's worked example and check it.

    Sends the example's requests through Kafka, Spark and Delta, compares the decisions with KIP-599, and exits.

    Examples:
      mutation-quota demo
      mutation-quota demo --set storage.root=/tmp/demo
    """
    check_extras("demo", "spark", "broker")
    from jobs.sandbox.demo import run_demo

    run_demo(where.read())
