"""Compile CUDA C++ to PTX: nvrtc.py LIBRARY ARCHITECTURE IN.cu OUT.ptx [IN.cu OUT.ptx ...]"""

import ctypes
import os
import sys


def main(library, architecture, *files):
    # NVRTC opens its builtins by name: have them loaded already.
    folder = os.path.dirname(library)
    for name in sorted(os.listdir(folder)):
        if name.startswith("libnvrtc-builtins.so"):
            ctypes.CDLL(os.path.join(folder, name), ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(library)

    def call(name, *args):
        code = getattr(nvrtc, name)(*args)
        return code

    def text(size_of, get, program):
        size = ctypes.c_size_t()
        if call(size_of, program, ctypes.byref(size)) != 0:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        call(get, program, buffer)
        return buffer.value

    for source, target in zip(files[::2], files[1::2]):
        with open(source, "rb") as f:
            code = f.read()
        program = ctypes.c_void_p()
        name = os.path.basename(source).encode()
        if call("nvrtcCreateProgram", ctypes.byref(program), code, name, 0, None, None) != 0:
            sys.exit(f"{source}: NVRTC cannot start")
        headers = b"--include-path=" + os.path.dirname(os.path.abspath(source)).encode()
        options = [b"--gpu-architecture=" + architecture.encode(), b"--std=c++17", b"--fmad=false", headers]
        array = (ctypes.c_char_p * len(options))(*options)
        failed = call("nvrtcCompileProgram", program, len(options), array)
        log = text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program).decode().strip()
        if log:
            print(log, file=sys.stderr)
        if failed:
            sys.exit(f"{source}: NVRTC refused it")
        with open(target, "wb") as f:
            f.write(text("nvrtcGetPTXSize", "nvrtcGetPTX", program))


main(*sys.argv[1:])
