# SPDX-License-Identifier: Apache-2.0
"""devrt.validate(), declared work, and pytest's option --devrt-race."""

import sys
import textwrap

import pytest

SETUP = """
import devrt
device = devrt.Device("mtia:0")
a, b = devrt.Stream(device), devrt.Stream(device)
def race(ordered):
    with a:
        x = devrt.ones(1024, device=device)
    y = devrt.empty(1024, device=device)
    devrt.annotate_work(a, writes=[x], name="writer")
    if ordered:
        b.wait(a.record())
    devrt.annotate_work(b, reads=[x], name="reader")
    a.synchronize()
    b.synchronize()
"""


@pytest.fixture
def run(run_program):
    """Returns a function that runs a program and returns what it prints."""

    def run_one(body, **environment):
        done = run_program(textwrap.dedent(body).replace("SETUP", SETUP),
                           env={"DEVRT_LOG": "off", **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_one


def test_a_block_raises_for_unordered_work(run):
    out = run("""
import devrt
with devrt.validate():
    pass
SETUP
try:
    with devrt.validate():
        race(ordered=False)
except devrt.RaceError as error:
    print(error.findings[0].kind, error.findings[0].id[:5])
    print(error)
""")
    assert out.startswith("read-after-write race-")
    assert '"writer"' in out and '"reader"' in out


def test_a_block_with_ordered_work_ends_quietly(run):
    assert run("""
import devrt
with devrt.validate():
    pass
SETUP
with devrt.validate() as validation:
    race(ordered=True)
print(len(validation.findings))
""") == "0\n"


def test_findings_can_be_read_without_an_exception(run):
    assert run("""
import devrt
with devrt.validate(check=False) as early:
    pass
SETUP
with devrt.validate(check=False) as validation:
    race(ordered=False)
print(len(early.findings) > 0, len(validation.findings) > 0)
print(validation.findings[0].json[0])
""") == "True True\n{\n"


def test_an_exception_of_the_block_is_kept(run):
    assert run("""
import devrt
with devrt.validate():
    pass
SETUP
try:
    with devrt.validate():
        race(ordered=False)
        raise KeyError("own")
except KeyError as error:
    print(error)
""") == "'own'\n"


HELPER = """
import devrt
class Model:
    def use(self, stream, **ranges):
        devrt.annotate_work(stream, **ranges)
"""

# Two functions that use one helper of another module.
STACKS = f"""
import json, sys, threading, types
import devrt
with devrt.validate():
    pass
SETUP
helper = types.ModuleType("helper")
exec(compile({HELPER!r}, "helper.py", "exec"), helper.__dict__)
memory = devrt.empty(1024, device=device)
device.synchronize()
def produce():
    helper.Model().use(a, writes=[memory])
def consume(depth=0):
    if depth:
        return consume(depth - 1)
    helper.Model().use(b, reads=[memory])
def find(later):
    with devrt.validate(check=False) as validation:
        produce()
        later()
    finding, = validation.findings
    return finding, json.loads(finding.json)
def functions(operation):
    return [frame["function"] for frame in operation.get("stack", [])]
"""


def test_findings_have_the_stacks_of_both_operations(run):
    out = run(STACKS + """
finding, found = find(consume)
print(functions(found["earlier"])[:2], functions(found["later"])[:2])
print(found["later"]["stack"][0]["file"], found["later"]["stack"][0]["line"])
print(found["later"]["site"])
print(finding.text)
""")
    lines = out.splitlines()
    use = "Model.use" if sys.version_info >= (3, 11) else "use"
    assert lines[0] == f"['{use}', 'produce'] ['{use}', 'consume']"
    assert lines[1:3] == ["helper.py 5", "helper.py:5"]
    assert f"\n    in {use}, helper.py:5\n    called by consume, " in out
    assert "\n    called by <module>, " in out


def test_a_deep_stack_says_how_much_is_left_out(run):
    out = run(STACKS + """
later = find(lambda: consume(200))[1]["later"]
print(len(later["stack"]), later["stack_left_out"])
""")
    # use, consume 201 times, the lambda, find and the module.
    assert out == "32 173\n"


def test_stacks_do_not_change_ids(run):
    on, off = (run(STACKS + """
finding, found = find(consume)
print(finding.id, len(functions(found["later"])))
""", DEVRT_RACE_STACKS=setting).split() for setting in ("on", "off"))
    assert on[0] == off[0]
    assert (int(on[1]) > 0, int(off[1])) == (True, 0)


def test_threads_have_stacks_of_their_own(run):
    out = run(STACKS + """
def in_a_thread():
    thread = threading.Thread(target=consume)
    thread.start()
    thread.join()
print(functions(find(in_a_thread)[1]["later"]))
""")
    assert "'consume'" in out
    assert "'find'" not in out and "<module>" not in out


def test_native_code_that_python_calls_has_its_frames(run):
    out = run(STACKS + """
import ctypes
from devrt import _core
native = ctypes.PyDLL(_core.__file__)  # keeps the GIL
pointer = ctypes.c_void_p()
def allocate():
    size = ctypes.c_uint64(4096)
    return native.devrt_memory_alloc_v0(b"mtia:0", size, None, ctypes.byref(pointer))
def free():
    return native.devrt_memory_free_v0(pointer)
assert allocate() == 0
with devrt.validate(check=False) as validation:
    _core._annotate_work(a, [(pointer.value, 4096, 1)], "")
    assert free() == 0
finding, = validation.findings
later = json.loads(finding.json)["later"]
print(finding.kind, functions(later)[-2:], "stack_is_cut" in later)
""")
    assert out == "free-while-used ['free', '<module>'] False\n"


def test_code_that_is_compiled_again_needs_no_more_memory(run):
    out = run(STACKS + """
def blocks_after(times):
    for _ in range(times):
        exec(compile("def f(): produce()\\nf()", "".join(["cell", ".py"]), "exec"))
        device.synchronize()
    return sys.getallocatedblocks()
before = blocks_after(10)
print((blocks_after(1000) - before) // 1000)
""")
    assert out == "0\n"


def test_the_first_block_comes_before_the_first_backend(run):
    out = run("""
SETUP
try:
    with devrt.validate():
        pass
except devrt.Error as error:
    print(error)
""")
    assert "mtia" in out and "DEVRT_LAYERS=validate" in out


def test_the_environment_chooses_the_layer(run):
    assert run("""
SETUP
with devrt.validate(check=False) as validation:
    race(ordered=False)
print(validation.findings[0].kind)
""", DEVRT_LAYERS="validate") == "read-after-write\n"


def test_declared_order_is_known(run):
    assert run("""
import devrt
with devrt.validate():
    pass
SETUP
with devrt.validate() as validation:
    with a:
        x = devrt.ones(1024, device=device)
    devrt.annotate_order(a, b)
    devrt.annotate_work(b, reads=[(x.ptr, x.nbytes)])
    a.synchronize()
    b.synchronize()
print(len(validation.findings))
""") == "0\n"


def test_the_host_reads_pinned_memory_in_flight(run):
    assert run("""
import devrt
with devrt.validate():
    pass
SETUP
with devrt.validate(check=False) as validation:
    address = devrt.pinned_alloc(4096, device)
    devrt.annotate_work(a, writes=[(address, 4096)])
    devrt.use_on_host(reads=[(address, 4096)])
    a.synchronize()
    devrt.pinned_delete(address)
print(*[finding.kind for finding in validation.findings])
""") == "host-access-in-flight\n"


def test_without_the_layer_declarations_do_nothing(run):
    assert run("""
SETUP
race(ordered=False)
devrt.use_on_host(reads=[(1, 2)])
devrt.annotate_order(a, b)
""") == ""


@pytest.mark.parametrize("wrong, message", [
    ("devrt.annotate_work(a, reads=[7])", "expected an Array"),
    ("devrt.annotate_work(7)", "Stream"),
    ("devrt.use_on_host(reads=[(1, -2)])", "bytes"),
])
def test_wrong_arguments_are_refused(run, wrong, message):
    assert message in run(f"""
SETUP
try:
    {wrong}
except Exception as error:
    print(error)
""")


RACE = """
import devrt

def test_unordered():
    device = devrt.Device("mtia:0")
    a, b = devrt.Stream(device), devrt.Stream(device)
    with a:
        x = devrt.ones(1024, device=device)
    devrt.annotate_work(b, reads=[x], name="reader")
    a.synchronize()
    b.synchronize()

def test_ordered():
    device = devrt.Device("mtia:0")
    a = devrt.Stream(device)
    with a:
        x = devrt.ones(1024, device=device)
        y = x + x
    a.synchronize()

def test_that_fails():
    test_unordered()
    assert False
"""


def test_pytest_fails_tests_with_unordered_work(run_pytest):
    result = run_pytest(RACE, "--devrt-race")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*read-after-write*", "*race detector*"])


def test_pytest_fails_tests_whose_fixture_leaves_work_unordered(run_pytest):
    result = run_pytest(RACE.replace("def test_", "def check_") + """
import pytest

@pytest.fixture
def at_the_end():
    yield
    check_unordered()

def test_that_passes(at_the_end):
    pass
""", "--devrt-race")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*read-after-write*"])


def test_pytest_without_the_option_looks_for_nothing(run_pytest):
    run_pytest(RACE).assert_outcomes(passed=2, failed=1)


def test_a_finding_shows_its_picture_in_a_notebook(run):
    out = run("""
import devrt
with devrt.validate():
    pass
SETUP
try:
    with devrt.validate():
        race(ordered=False)
except devrt.RaceError as error:
    finding, = error.findings
    print(finding._repr_svg_())
    print(error._repr_html_().startswith("<pre>race-"))
    print("&quot;writer&quot;" in error._repr_html_())
    print(finding._repr_svg_() in error._repr_html_())
""")
    assert out.startswith("<svg") and "missing wait" in out
    assert out.endswith("True\nTrue\nTrue\n")


HOST_FUNCTION = """
import devrt
with devrt.validate():
    pass
SETUP
address = devrt.pinned_alloc(4096, device)
done = []
def use(word):
    done.append(word)
use_it = devrt.with_accesses(use, reads=[(address, 4096)])
"""


def test_a_host_function_declares_what_it_uses(run):
    out = run(HOST_FUNCTION + """
with devrt.validate(check=False) as validation:
    devrt.annotate_work(a, writes=[(address, 4096)], name="writer")
    b.launch_host_func(use_it, 7).result()
print(done)
print(validation.findings[0].kind)
print(validation.findings[0].text)
""")
    assert out.startswith("[7]\n")
    assert "read-after-write" in out and 'read "host function"' in out


def test_a_host_function_in_order_is_right(run):
    assert run(HOST_FUNCTION + """
with devrt.validate():
    devrt.annotate_work(a, writes=[(address, 4096)], name="writer")
    b.wait(a.record())
    b.launch_host_func(use_it, 7).result()
    devrt.annotate_work(a, writes=[(address, 4096)], name="after the result")
print(done)
""") == "[7]\n"


def test_later_work_does_not_wait_for_a_host_function(run):
    assert run(HOST_FUNCTION + """
with devrt.validate(check=False) as validation:
    future = a.launch_host_func(use_it, 7)
    devrt.annotate_work(a, writes=[(address, 4096)], name="too early")
    future.result()
print(*[finding.kind for finding in validation.findings])
""") == "host-access-in-flight\n"


def test_a_refused_host_function_does_not_run(run):
    out = run(HOST_FUNCTION + """
devrt.annotate_work(a, writes=[(address, 4096)], name="writer")
try:
    b.launch_host_func(use_it, 7)
except devrt.Error as error:
    print(error.code, "read-after-write" in str(error))
a.synchronize()
print(done)
""", DEVRT_RACE="throw")
    assert out == "FAILED_PRECONDITION True\n[]\n"
