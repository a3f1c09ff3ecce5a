"""The jobs' file operations, below one root: local, hdfs://, s3:// and all others of pyarrow.

Paths are relative to the root, with `/`. On a local root, files that must survive a power loss are
synced; other file systems give their own guarantees.

`create` is atomic, and fails if the file exists already: on a local disk by a hard link, on HDFS by
its rename. pyarrow has no such operation for an object store. There it checks first, so two writers
at the same instant may both succeed.
"""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyarrow import fs

from pyspark_seriatim.jobs.errors import JobError, first_line

HADOOP: Final = ("hdfs", "viewfs")
KINDS: Final = "a path, or file://, hdfs://, s3://, gs://, abfs://"
SEIZED: Final = ".seized"


class Files:
    """Everything below `root`, given in the form Spark takes: a path, file://, hdfs://, s3a://..."""

    def __init__(self, root: str) -> None:
        """Raises `JobError` if that kind of file system is unknown, or not reachable from here."""
        scheme, colon, rest = root.partition("://")
        if not colon or scheme == "file":
            # Taken literally, as in Spark: a `%` in a folder's name is a `%`.
            self.root = os.path.abspath(rest if colon else root)
            self._fs, self._base = fs.LocalFileSystem(), self.root
        else:
            self.root = root.rstrip("/")
            uri = "s3" + self.root[len(scheme) :] if scheme in ("s3a", "s3n") else self.root
            try:
                self._fs, self._base = fs.FileSystem.from_uri(uri)
            except (OSError, pa.ArrowException) as error:
                raise JobError(f"{root}: {_unreached(scheme, error)}") from error
        self._local = isinstance(self._fs, fs.LocalFileSystem)

    @property
    def filesystem(self) -> fs.FileSystem:
        """The file system for pyarrow.parquet and pyarrow.dataset, with paths by `inner`."""
        return self._fs

    def inner(self, path: str) -> str:
        """The path for `filesystem`."""
        return f"{self._base}/{path}" if path else str(self._base)

    def uri(self, path: str) -> str:
        """The path in the form Spark takes."""
        return f"{self.root}/{path}"

    def relative(self, path: str) -> str:
        """The inverse of `uri`."""
        scheme, colon, rest = path.partition("://")
        path = rest if colon and scheme == "file" else path
        if not path.startswith(f"{self.root}/"):
            raise ValueError(f"{path} is not under {self.root}")
        return path[len(self.root) + 1 :]

    def read(self, path: str) -> bytes | None:
        """The content, or None if there is no such file."""
        try:
            with self._fs.open_input_stream(self.inner(path)) as stream:
                return bytes(stream.read())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no folder."""
        wanted = fs.FileSelector(self.inner(folder), allow_not_found=True)
        try:
            found = self._fs.get_file_info(wanted)
        except FileNotFoundError:  # pyarrow looked twice, and it was made in between
            return []
        return sorted(info.base_name for info in found)

    def size(self, path: str) -> int | None:
        """Return a file's size in bytes; None if there is no such file."""
        info = self._fs.get_file_info(self.inner(path))
        return int(info.size) if info.type == fs.FileType.File else None

    def exists(self, path: str) -> bool:
        """True if there is a file or a folder."""
        return bool(self._fs.get_file_info(self.inner(path)).type != fs.FileType.NotFound)

    def make(self, folder: str) -> None:
        """Create a folder and its parents, unless they exist."""
        self._fs.create_dir(self.inner(folder), recursive=True)

    def create(self, path: str, data: bytes, temporary: str) -> bool:
        """Create a file with this content atomically; False if it exists already.

        `temporary` is the folder where it is written first; leftovers of a crash are there.
        """
        new = f"{temporary}/{uuid.uuid4().hex}.new"
        with self._fs.open_output_stream(self.inner(new)) as stream:
            stream.write(data)
        try:
            if self._local:
                self._sync(self.inner(new))
                os.link(self.inner(new), self.inner(path))
                self._sync(os.path.dirname(self.inner(path)))
            elif self.size(path) is not None:
                return False
            else:
                self._fs.move(self.inner(new), self.inner(path))
        except FileExistsError:
            return False
        except OSError:
            if self._local or self.size(path) is None:
                raise
            return False  # HDFS: it was created after our check
        finally:
            self.delete(new)
        return True

    def seize(self, path: str) -> str:
        """Rename a folder, so that writers with the old name find nothing; return the new name.

        An object store cannot rename a folder; there the name stays.
        """
        if not self._local or path.endswith(SEIZED):
            return path
        with contextlib.suppress(FileNotFoundError):
            os.rename(self.inner(path), self.inner(path + SEIZED))
        return path + SEIZED

    def move(self, source: str, target: str) -> None:
        """Rename, and create the folders that `target` needs. Call `sync` after some of these."""
        if self._local:
            self._sync(self.inner(source))
        self.make(os.path.dirname(target))
        self._fs.move(self.inner(source), self.inner(target))

    def sync(self, paths: Iterable[str]) -> None:
        """Make sure that files moved to these paths survive a power loss."""
        folders = {""}
        for path in paths:
            while path := os.path.dirname(path):
                folders.add(path)
        if self._local:
            for folder in folders:
                self._sync(self.inner(folder))

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self.inner(path))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with its contents, or a file, if it exists."""
        if self.size(folder) is not None:
            self.delete(folder)
        elif self._local:  # pyarrow fails if another process is faster
            shutil.rmtree(self.inner(folder), ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                self._fs.delete_dir(self.inner(folder))

    @staticmethod
    def _sync(path: str) -> None:
        """Wait until a local file or folder is on the disk."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unreached(scheme: str, error: Exception) -> str:
    """Explain why a URI has no file system here, and what to install for it."""
    why = first_line(error)
    if scheme in HADOOP:
        return (
            f"{why}; {scheme}:// needs Hadoop's client on this machine: JAVA_HOME"
            f" ({os.environ.get('JAVA_HOME') or 'not set'}), libhdfs.so in"
            " $HADOOP_HOME/lib/native or ARROW_LIBHDFS_DIR, and CLASSPATH as `hadoop classpath"
            " --glob` prints it"
        )
    if isinstance(error, pa.ArrowInvalid):
        return f"{why}; write {KINDS}"
    return why
