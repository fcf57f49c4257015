"""Files that change while a gateway runs."""

import errno

from jobs.gateway.watched import Watched


def test_a_change_that_cannot_be_read_at_first_is_read_later_and_logged_once(tmp_path, caplog):
    """As with too many open files: nothing changes once there are fewer."""
    file, errors = tmp_path / "certificate", []

    def load():
        if errors:
            raise errors[0]
        return file.read_text()

    def write(text):
        (tmp_path / "next").write_text(text)
        (tmp_path / "next").replace(file)

    write("first")
    watched = Watched("certificate", [str(file)], load)
    write("second")
    errors.append(OSError(errno.EMFILE, "Too many open files"))
    seen = []
    for last in (False, False, True):
        if last:
            errors.clear()
        watched.refresh()
        seen.append(watched.value)
    assert seen == ["first", "first", "second"]
    assert caplog.text.count("the earlier certificate remains in use: [Errno 24] Too many open files") == 1
