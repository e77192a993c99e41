"""The package as it is published: `test.sh` has made both archives, and installed the wheel."""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
LICENSE = (HERE / "../../../LICENSE").read_bytes()
FILES = ("sockeye/types/v1/types.proto", "sockeye/worker/v1/worker.proto")


def archive(ending):
    [found] = (HERE / "../.venv/dist").glob(f"*{ending}")
    return found


def python(*args):
    """In an empty folder: nothing is found but what is installed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, *args], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_source_archive_could_not_be_built_without_the_repository():
    with tarfile.open(archive(".tar.gz")) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
        for file in FILES:
            proto = sources.extractfile(f"sockeye_worker-0.1.0/proto/{file}").read()
            assert proto == (HERE / "../../../proto" / file).read_bytes()
    assert {"LICENSE", "README.md", "src/sockeye_worker/py.typed"} <= names
    assert not {name for name in names if name.startswith("tests") or "api.proto" in name}


def test_the_wheel_has_messages_types_and_licence_in_one_module_of_its_own():
    with zipfile.ZipFile(archive(".whl")) as wheel:
        names = wheel.namelist()
        licence = wheel.read("sockeye_worker-0.1.0.dist-info/licenses/LICENSE")
    assert licence == LICENSE
    # `sockeye` is another project's module.
    assert {name.partition("/")[0] for name in names} == {"sockeye_worker", "sockeye_worker-0.1.0.dist-info"}
    assert {"sockeye_worker/" + name for name in ("py.typed", "types_pb2.py", "types_pb2.pyi", "worker_pb2.py", "worker_pb2.pyi")} <= set(names)


def test_a_program_with_another_worker_proto_could_not_import_the_library():
    program = """
from google.protobuf import descriptor_pb2, descriptor_pool
file = descriptor_pb2.FileDescriptorProto(name="worker.proto", package="farm")
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
from sockeye_worker import Worker, worker_pb2
print(worker_pb2.DESCRIPTOR.name)
"""
    assert python("-c", program) == "sockeye/worker/v1/worker.proto\n"


def test_a_type_checker_learned_nothing_about_the_library():
    assert python("-m", "mypy", "--strict", str(HERE / "typed.py")).startswith("Success")


def test_pyright_finds_no_fault_with_the_library_and_with_a_program():
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "typed.py")
        program.write_text("# pyright: strict\n" + (HERE / "typed.py").read_text())
        [library] = (HERE / "../.venv/lib").glob("python3*/site-packages/sockeye_worker")
        said = python("-m", "pyright", "--pythonpath", sys.executable, str(program), *map(str, library.glob("*.py")))
    assert "0 errors, 0 warnings" in said, said
