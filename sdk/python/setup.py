"""Makes the protocol's messages from worker.proto while the package is built."""

from importlib.resources import files
from pathlib import Path
from shutil import copyfile

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
NAME = "worker.proto"
# In the repository the file is two folders up; in a source archive it is here.
SOURCES = [HERE / "../../proto/sockeye/worker/v1" / NAME, HERE / NAME]


class WithMessages(build_py):
    def run(self):
        from grpc_tools import protoc

        super().run()
        package = Path(self.build_lib) / "sockeye"
        copy = package / NAME
        copyfile(next(source for source in SOURCES if source.exists()), copy)
        standard = files("grpc_tools") / "_proto"
        if protoc.main(["protoc", f"-I{package}", f"-I{standard}", f"--python_out={package}", str(copy)]) != 0:
            raise SystemExit(f"cannot make messages from {copy}")


setup(cmdclass={"build_py": WithMessages})
