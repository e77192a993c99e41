"""Makes the protocol's messages while the package is built, and puts their files into the source archive."""

from importlib.resources import files
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).parent
# Messages are registered under these paths. A program may have another file called worker.proto.
FILES = ["sockeye/types/v1/types.proto", "sockeye/worker/v1/worker.proto"]
# In a source archive the folder is here, in the repository two folders up.
PROTO = next(folder for folder in (HERE / "proto", HERE / "../../proto") if (folder / FILES[0]).exists())


class WithMessages(build_py):
    def run(self):
        from grpc_tools import protoc

        super().run()
        out = Path(self.get_finalized_command("build").build_temp) / "messages"
        out.mkdir(parents=True, exist_ok=True)
        standard = files("grpc_tools") / "_proto"
        if protoc.main(["protoc", f"-I{PROTO}", f"-I{standard}", f"--python_out={out}", f"--pyi_out={out}", *FILES]) != 0:
            raise SystemExit(f"cannot make messages from {PROTO}: {', '.join(FILES)}")
        for made in (made for file in FILES for made in (out / file).parent.iterdir()):
            # They stand beside each other: `sockeye` is another project's module.
            text = made.read_text().replace("from sockeye.types.v1 import", "from . import")
            (Path(self.build_lib) / "sockeye_worker" / made.name).write_text(text)


class WithProto(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for file in FILES:
            copy = Path(base_dir) / "proto" / file
            self.mkpath(str(copy.parent))
            self.copy_file(str(PROTO / file), str(copy))


setup(cmdclass={"build_py": WithMessages, "sdist": WithProto})
