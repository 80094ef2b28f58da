#!/bin/sh
# Runs the tests, benchmarks and the program of this folder. README.md, beside it, says more.
set -u

usage() {
    cat <<'END'
./run.sh tests [FILTER [ARGUMENT...]]  run the test programs with FILTER in their PACKAGE/NAME;
                                       each is given the ARGUMENTs, such as a part of a test's name
./run.sh bench NAME [ARGUMENT...]      run a benchmark
./run.sh doctor                        let the program say what this machine offers
./run.sh sanitize                      run the tests of the GPU under NVIDIA's compute-sanitizer
END
}

fail() {
    echo "run.sh: $*" >&2
    exit 2
}

# What a result must say of where it was measured.
machine() {
    cat "$here/about.txt"
    echo "machine     $(uname -srm), $(getconf _NPROCESSORS_ONLN) processors"
    if ! command -v nvidia-smi >/dev/null; then
        echo "GPU         unknown: there is no nvidia-smi here, which comes with NVIDIA's driver"
    elif nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader >"$work/gpus" 2>&1; then
        sed 's/^/GPU         /; s/,\([^,]*\)$/, driver\1/' "$work/gpus"
    else
        echo "GPU         nvidia-smi fails: $(cat "$work/gpus")"
    fi
}

# start PACKAGE COMMAND...: as cargo does, in the package's folder, told where it and the program are.
start() {
    cd "$here/repository/crates/$1" || exit
    shift
    CARGO_MANIFEST_DIR=$PWD CARGO_BIN_EXE_framelane=$here/bin/framelane exec "$@"
}

# run_tests PACKAGE/NAME COMMAND...: runs one test program and adds its line to the summary.
run_tests() {
    name=$1
    shift
    printf '\n== %s\n' "$name"
    : >"$work/reported"
    # The exit code of a command before a pipe is kept in a file: sh has no other way.
    {
        (FRAMELANE_SKIPPED=$work/reported start "${name%%/*}" "$@")
        echo $? >"$work/code"
    } | tee "$work/output"
    count
}

# Counts as `cargo xtask test` does. Programs with Rust's harness end with a line of counts; those without are
# counted by their lines `test NAME ... ok` or `FAILED`, and by `skipped: REASON`.
count() {
    code=$(cat "$work/code")
    passed='' failed='' ok=0 bad=0
    : >"$work/ignored"
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        'test result: '*)
            # shellcheck disable=SC2086 # In words: 5 passed; 0 failed; and so on.
            set -- ${line#*. }
            passed=$1 failed=$3
            ;;
        'test '*' ... ignored'*)
            test=${line%% ... *} reason=${line#* ... ignored}
            echo "${test#test }: ${reason#, }" >>"$work/ignored"
            ;;
        'test '*' ... ok'*) ok=$((ok + 1)) ;;
        'test '*' ... FAILED'*) bad=$((bad + 1)) ;;
        'skipped: '*) echo "all: ${line#skipped: }" >>"$work/ignored" ;;
        esac
    done <"$work/output"
    # A test that said why it did not run was counted as passed.
    sort -u "$work/reported" >"$work/skipped"
    passed=$((${passed:-$ok} - $(wc -l <"$work/skipped")))
    failed=${failed:-$bad}
    cat "$work/ignored" >>"$work/skipped"
    skipped=$(($(wc -l <"$work/skipped")))
    note=
    if [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1 note=" (ended with code $code)"
    fi
    [ "$failed" -eq 0 ] || broken=$((broken + 1))
    sed "s|^|skipped $name: |" "$work/skipped" >>"$work/skips"
    printf '%6d passed %4d failed %4d skipped  %s%s\n' "$passed" "$failed" "$skipped" "$name" "$note" >>"$work/summary"
}

# The summary, last of all; an exit code of 1 if a test failed.
finish() {
    echo
    cat "$work/skips" "$work/summary"
    [ "$broken" -eq 0 ] || exit 1
    exit 0
}

# run_if_named PROGRAM [ARGUMENT...]: if it has the filter in its name.
run_if_named() {
    program=$1
    shift
    [ -f "$program" ] || return 0 # The pattern itself: there are none.
    case ${program#"$here"/tests/} in
    *"$filter"*) run_tests "${program#"$here"/tests/}" "$program" "$@" ;;
    esac
}

tests() {
    filter=${1-}
    [ $# -eq 0 ] || shift
    # Those of the CUDA layer last: one of them plants a wrong address in a kernel, after which a driver was seen that
    # draws no triangles any more.
    for program in "$here"/tests/*/*; do
        case $program in
        "$here"/tests/framelane-cuda/*) ;;
        *) run_if_named "$program" "$@" ;;
        esac
    done
    for program in "$here"/tests/framelane-cuda/*; do
        run_if_named "$program" "$@"
    done
    [ -s "$work/summary" ] || fail "no test program here has '$filter' in its name: see $here/tests"
    finish
}

bench() {
    [ $# -gt 0 ] || fail "bench needs a name: see $here/benches"
    wanted=$1
    shift
    for program in "$here"/benches/*/"$wanted"; do
        [ -f "$program" ] || fail "there is no benchmark '$wanted' here: see $here/benches"
        package=${program#"$here"/benches/}
        echo
        (start "${package%%/*}" "$program" --bench "$@") || exit
    done
}

doctor() {
    [ -f "$here/bin/framelane" ] || fail "the program is not in this bundle: make one with framelane-cli in it"
    echo
    "$here/bin/framelane" doctor
}

sanitize() {
    gpu=$here/tests/framelane-cuda/gpu
    [ -f "$gpu" ] || fail "the tests of the GPU are not in this bundle: make one with framelane-cuda in it"
    tool=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer) ||
        fail "nothing was checked: there is no compute-sanitizer here, which comes with the CUDA toolkit"
    # Errors that the driver returns are what some tests ask for; one test plants a wrong address.
    check() {
        kind=$1
        shift
        run_tests "framelane-cuda/gpu under $kind" "$tool" --tool "$kind" --report-api-errors no \
            --error-exitcode 1 "$gpu" "$@"
    }
    check memcheck --skip a_wrong_address
    check racecheck kernels:: picture::
    finish
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit
command=${1-}
case $command in
tests | bench | doctor | sanitize) shift ;;
'') usage && exit ;;
*) usage >&2 && fail "'$command' is none of these" ;;
esac

# What tests leave behind goes with this folder, also when they are interrupted.
work=$(mktemp -d) || fail "no temporary folder can be made: set TMPDIR to a folder that can be written"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/tmp"
export TMPDIR="$work/tmp"
: >"$work/skips" >"$work/summary"
broken=0

machine
"$command" "$@"
