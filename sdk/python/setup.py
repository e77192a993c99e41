"""Makes the protocol's messages from worker.proto while the package is built, and puts that file into the source archive."""

from importlib.resources import files
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
# Messages are registered under this path. A program may have another file called worker.proto.
FILE = "sockeye/worker/v1/worker.proto"
# In a source archive the folder is here, in the repository two folders up.
PROTO = next(folder for folder in (HERE / "proto", HERE / "../../proto") if (folder / FILE).exists())


class WithMessages(build_py):
    def run(self):
        from grpc_tools import protoc

        super().run()
        out = Path(self.get_finalized_command("build").build_temp) / "messages"
        out.mkdir(parents=True, exist_ok=True)
        standard = files("grpc_tools") / "_proto"
        if protoc.main(["protoc", f"-I{PROTO}", f"-I{standard}", f"--python_out={out}", f"--pyi_out={out}", FILE]) != 0:
            raise SystemExit(f"cannot make messages from {PROTO / FILE}")
        for made in (out / FILE).parent.iterdir():
            self.copy_file(str(made), str(Path(self.build_lib) / "sockeye_worker" / made.name))


class WithProto(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        copy = Path(base_dir) / "proto" / FILE
        self.mkpath(str(copy.parent))
        self.copy_file(str(PROTO / FILE), str(copy))


setup(cmdclass={"build_py": WithMessages, "sdist": WithProto})
