"""The storage of tables, and its options."""

import pytest

from quota.errors import BadInput
from quota.settings import load_settings


def storage_of(overrides):
    return load_settings(overrides, environment={}, with_default_file=False).storage


def test_one_table_of_options_serves_spark_and_deltalake():
    options = {
        "fs.s3a.endpoint": "https://store:9000",
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "the-key",
        "fs.s3a.secret.key": "the-secret",
        "fs.s3a.session.token": "the-token",
    }
    storage = storage_of(
        ["storage.root=s3a://b/r", *(f"storage.options.{key}={value}" for key, value in options.items())]
    )
    assert storage.hadoop() == {f"spark.hadoop.{name}": value for name, value in options.items()}
    assert storage.deltalake() == {
        "retry_timeout": "15s",
        "aws_endpoint": "https://store:9000",
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_access_key_id": "the-key",
        "aws_secret_access_key": "the-secret",
        "aws_session_token": "the-token",
    }


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ({"endpoint": "store:9000"}, "https://store:9000"),
        ({"endpoint": "store:9000", "connection.ssl.enabled": "False"}, "http://store:9000"),
        ({"endpoint": "http://store:9000"}, "http://store:9000"),
    ],
)
def test_an_endpoint_may_be_without_its_scheme_as_for_hadoop(given, endpoint):
    overrides = [f"storage.options.fs.s3a.{name}={value}" for name, value in given.items()]
    options = storage_of(overrides).deltalake()
    assert options["aws_endpoint"] == endpoint
    assert options.get("aws_allow_http") == ("true" if endpoint.startswith("http://") else None)


def test_other_file_systems_have_deltalakes_own_options():
    given = ["storage.options.'fs.s3a.access.key'=a", "storage.table_options.google_service_account=/key.json"]
    storage = storage_of(given)
    assert storage.deltalake() == {"aws_access_key_id": "a", "google_service_account": "/key.json"}


@pytest.mark.parametrize("root", ["/srv/a%20b", "s3a://bucket/a%2Fb"])
def test_an_ambiguous_root_is_rejected(root):
    with pytest.raises(BadInput, match="percent sign and two hexadecimal digits"):
        storage_of([f"storage.root={root}"])
    storage_of(["storage.root=/srv/100% sure"])


@pytest.mark.parametrize(
    "root",
    [
        "s3a://key:hunter2@bucket/x",
        "s3a://key:hun/ter2@bucket",
        "hdfs://me:hunter2@nn/x",
    ],
)
def test_a_root_with_a_password_is_refused_and_not_repeated(root):
    """No file system needs it, and the root is printed and recorded in many places."""
    for overrides, environment in [([f"storage.root={root}"], {}), ([], {"MUTATION_QUOTA__STORAGE__ROOT": root})]:
        with pytest.raises(BadInput, match="a URL with a password; set credentials in") as raised:
            load_settings(overrides, environment=environment, with_default_file=False)
        assert not any(part in str(raised.value) for part in ("hunter2", "ter2"))


@pytest.mark.parametrize("root", ["abfss://c@account.dfs.core.windows.net/x", "hdfs://nn:8020/a@b", "s3a://b/a:b@c"])
def test_a_root_with_an_at_sign_that_is_no_login_is_accepted(root):
    assert storage_of([f"storage.root={root}"]).root == root


@pytest.mark.parametrize(
    ("root", "advice"),
    [
        ("S3N://bucket/root", "scheme S3N:// is not supported; write s3a://bucket/root, got"),
        ("file:///srv/quotas", "a folder has no scheme; write /srv/quotas, got 'file:///srv/quotas'"),
        ("file:///srv/a%20b", "a folder has no scheme; write /srv/a b, got 'file:///srv/a%20b'"),
        ("file:quotas", "a folder has no scheme; write quotas, got"),
    ],
)
def test_a_root_whose_scheme_is_not_the_jobs_is_refused_with_what_to_write(root, advice):
    """In a folder leases are written without Hadoop, whose local file system looks for a file, and then writes it."""
    with pytest.raises(BadInput) as raised:
        storage_of([f"storage.root={root}"])
    assert str(raised.value).startswith(f"storage.root: {advice}")


def test_an_endpoint_that_is_not_amazons_has_buckets_in_paths_and_any_region():
    """So that an endpoint and credentials are all that has to be written; what is written counts."""

    def options(*given):
        overrides = [f"storage.options.fs.s3a.{each}" for each in given]
        return storage_of(["storage.root=s3a://b/r", *overrides])

    own = options("endpoint=http://127.0.0.1:9000")
    assert own.hadoop() == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert own.deltalake() == {
        "retry_timeout": "15s",
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }
    assert options("endpoint=http://[::1]:9", "endpoint.region=here").deltalake()["aws_region"] == "here"
    assert options("endpoint=s3.eu-central-1.amazonaws.com").hadoop() == {
        "spark.hadoop.fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"
    }
    assert options().deltalake() == {"retry_timeout": "15s"}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
        ("AWS_ENDPOINT_URL", "aws_endpoint"),
        ("ALLOW_HTTP", "aws_allow_http"),
        ("Retry_Timeout", "retry_timeout"),
    ],
)
def test_options_of_tables_in_s3_have_one_name_however_they_are_written(name, known):
    """deltalake knows all of these names; Arrow's file system is made from the one."""
    given = ["storage.root=s3a://b/r", "storage.options.fs.s3a.access.key=a", f"storage.table_options.{name}=mine"]
    options = storage_of(given).deltalake()
    assert options[known] == "mine"
    assert len(options) == len({"retry_timeout", "aws_access_key_id", known})
