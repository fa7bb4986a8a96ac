"""The life of one build, in a thread of its own: source, commands, artifacts.

Source: CodeBuild user guide, "View build details" (the phases and how one follows another) and "Build specification
reference for CodeBuild".
"""

from __future__ import annotations

import contextlib
import datetime as dt
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from ..role_clients import Credentials, RoleClients
from ..supervised_process import SupervisedProcess
from . import build_script
from .build import FAILED, STOPPED, SUCCEEDED, TIMED_OUT, Build
from .build_artifacts import BuildArtifacts
from .build_host import BuildHost, NothingToPack
from .buildspec import Buildspec, BuildspecError, parse
from .settings import BuildSettings

_LOOK_SECONDS, _TELL_SECONDS, _KILL_SECONDS = 0.05, 0.5, 5.0
_CLIENT_ERROR, _COMMAND_ERROR = "CLIENT_ERROR", "COMMAND_EXECUTION_ERROR"


class _Ended(Exception):
    """The build has come to a bad end: its status; the phase says why."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


class BuildRun:
    """Runs one build.

    Args:
        build: it, just begun.
        buildspec: its text.
        variables: those of the project and of whoever started it.
        artifacts: what it reads and writes.
        settings: how builds are run.
        clients: make clients under its service role.
    """

    def __init__(
        self,
        build: Build,
        buildspec: str,
        variables: Mapping[str, str],
        artifacts: BuildArtifacts,
        settings: BuildSettings,
        clients: RoleClients,
    ) -> None:
        self._build, self._text, self._variables, self._artifacts = build, buildspec, variables, artifacts
        self._settings, self._clients = settings, clients
        self._region, self._account = build.request["arn"].split(":")[3:5]
        self._until = time.monotonic() + 60 * build.request["timeoutInMinutes"]
        self._lines = list[tuple[dt.datetime, str]]()
        self._process: SupervisedProcess | None = None
        self._lock, self._abandoned = threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name=f"build-{build.id}", daemon=True)

    def start(self) -> None:
        """Begin, and return."""
        self._thread.start()

    def abandon(self) -> None:
        """End its processes at once: the local cloud ends."""
        with self._lock:
            self._abandoned = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        """Bring the build to its end, whatever happens."""
        status, exported = FAILED, dict[str, str]()
        with tempfile.TemporaryDirectory(prefix="build-", ignore_cleanup_errors=True) as folder:
            host = BuildHost(Path(folder))
            try:
                self._life(host)
                status = SUCCEEDED
            except _Ended as ended:
                status = ended.status
            except Exception as error:
                if not self._abandoned:
                    traceback.print_exc()
                self._build.fail(FAILED, "INTERNAL_SERVICE_ERROR", f"The build could not be run: {error}")
            exported = build_script.exported_variables(host.exported)
            self._build.enter("FINALIZING")
        self._tell()
        self._build.end(status, exported)

    def _life(self, host: BuildHost) -> None:
        self._build.enter("PROVISIONING")
        host.prepare()
        credentials = self._clients.credentials(self._build.request["serviceRole"])
        s3 = self._clients.client("s3", credentials, self._region)
        self._build.enter("DOWNLOAD_SOURCE")
        with self._failing():
            folders = self._artifacts.download(s3, host)
            spec = parse(self._buildspec(host))
        if self._commands(host, spec, folders, credentials) is not None:
            raise _Ended(FAILED)
        self._build.enter("UPLOAD_ARTIFACTS")
        with self._failing():
            self._artifacts.upload(s3, host, spec)

    def _buildspec(self, host: BuildHost) -> str:
        """The text, or the file of the source that it names; ``buildspec.yml`` where it is empty."""
        if "\n" in self._text or ":" in self._text:
            return self._text
        path = host.source / (self._text or "buildspec.yml")
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            name = path.relative_to(host.source)
            raise BuildspecError(f"YAML_FILE_ERROR: the source has no {name} ({error.strerror})") from None

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Turn what is the user's mistake into the end of the build."""
        try:
            yield
        except (BuildspecError, NothingToPack) as error:
            self._fail(_CLIENT_ERROR, str(error))
        except KeyError as error:
            self._fail(_CLIENT_ERROR, str(error.args[0]))
        except zipfile.BadZipFile as error:
            self._fail(_CLIENT_ERROR, f"the source is no zip archive: {error}")
        except (BotoCoreError, ClientError) as error:
            self._fail(_CLIENT_ERROR, f"{error} (service role {self._build.request['serviceRole']})")

    def _fail(self, code: str, reason: str) -> None:
        self._say(f"[Container] {code}: {reason}")
        self._build.fail(FAILED, code, reason)
        raise _Ended(FAILED)

    def _commands(
        self, host: BuildHost, spec: Buildspec, folders: Mapping[str, str], credentials: Credentials
    ) -> str | None:
        """Run the phases; the one that failed, if one did."""
        script = host.folder / "script.sh"
        script.write_text(build_script.script(spec, host.progress, host.exported), encoding="utf-8")
        cloud = self._settings.cloud(self._account, self._region)
        environment = {
            **host.environment(self._settings.path, {**cloud, **credentials}),
            "AWS_REGION": self._region,
            "AWS_DEFAULT_REGION": self._region,
            **self._variables,
            **folders,
        }
        with self._lock:
            if self._abandoned:
                raise _Ended(STOPPED)
            self._process = SupervisedProcess([spec.shell, str(script)], environment, host.source, self._say)
        seen, told, failed = 0, time.monotonic(), None
        try:
            while True:
                status = self._process.status
                steps = build_script.steps(host.progress)
                for step in steps[seen:]:
                    failed = self._entered(step, spec) or failed
                seen = len(steps)
                if status is not None:
                    if status != 0 and failed is None:
                        # A command that ends the shell, as exit does, leaves no word.
                        failed = str(self._build.describe()["currentPhase"])
                        self._build.fail(FAILED, _COMMAND_ERROR, f"The shell ended with exit status {status}")
                    return failed
                if time.monotonic() - told > _TELL_SECONDS:
                    self._tell()
                    told = time.monotonic()
                self._pause()
        finally:
            self._kill()

    def _entered(self, step: build_script.Step, spec: Buildspec) -> str | None:
        """Keep what the script wrote down; the phase, where a command of it failed and the build with it."""
        phase = step.phase.upper()
        if step.kind == "begin":
            self._build.enter(phase)
        elif step.kind == "failed":
            command = build_script.commands(spec, step.phase)[step.command]
            said = f"Error while executing command: {command}. Reason: exit status {step.status}"
            self._say(f"[Container] {said}")
            self._build.fail(FAILED, _COMMAND_ERROR, said)
            goes_on = next(item.continues for item in spec.phases if item.name == step.phase)
            return None if goes_on else phase
        return None

    def _pause(self) -> None:
        """Wait a moment, unless the build is to end."""
        if self._build.stop_asked.wait(_LOOK_SECONDS):
            self._build.fail(STOPPED, "", "")
            raise _Ended(STOPPED)
        if time.monotonic() > self._until:
            minutes = self._build.request["timeoutInMinutes"]
            self._build.fail(TIMED_OUT, "BUILD_TIMED_OUT", f"Build has timed out after {minutes} minutes.")
            raise _Ended(TIMED_OUT)

    def _kill(self) -> None:
        process = self._process
        if process is None:
            return
        process.kill()
        until = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < until and process.status is None:
            time.sleep(_LOOK_SECONDS)

    def _say(self, line: str) -> None:
        with self._lock:
            self._lines.append((dt.datetime.now(dt.UTC), line))

    def _tell(self) -> None:
        """Send what it has printed to CloudWatch."""
        with self._lock:
            lines, self._lines = self._lines, []
        if lines:
            logs = self._build.request["logs"]
            self._settings.telemetry(self._account, self._region).log(logs["groupName"], logs["streamName"], lines)
