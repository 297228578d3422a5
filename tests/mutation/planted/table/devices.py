# SPDX-License-Identifier: Apache-2.0
"""Defects of devices: properties, the current one, synchronisation, and what a
plugin claims."""

from mutants import Mutant

PROPS = ("  devrt::plugin::WriteStruct(props, Describe(g_machine->config, device)"
         ");\n")
ALL_OF_DEVICE = """\
  for (StreamCore* b = streams.of(device).busy; b; b = b->busy_next) {
    AddCovered(b, points);
  }
"""

MUTANTS = [
    Mutant(
        name="props_change",
        what="Properties change from call to call.",
        witness="Two calls of device_props differ.",
        items="", group="load", file="table/device.cc",
        old=PROPS,
        new="""\
  static uint32_t asked = 0;
  devrt_device_props_v0 described = Describe(g_machine->config, device);
  described.multiprocessors += asked++;
  devrt::plugin::WriteStruct(props, described);
"""),
    Mutant(
        name="device_count_changes",
        what="The number of devices falls when it is asked for again.",
        witness="A later device_count is smaller.",
        items="", group="load", file="table/device.cc",
        old="  *count = g_device_count;\n",
        new="  static uint32_t asked = 0;\n"
            "  *count = asked++ == 0 ? g_device_count : 1;\n"),
    Mutant(
        name="props_of_no_device",
        what="Properties are told of devices that do not exist.",
        witness="device_props of ordinal count succeeds.",
        items="C3", group="load", file="table/device.cc",
        old="  if (devrt_status error = CheckDevice(device)) return "
            "error;\n" + PROPS,
        new=PROPS),
    Mutant(
        name="devices_have_one_uuid",
        what="All devices have one UUID.",
        witness="device_props of two devices have it.",
        items="", group="load", file="table/device.cc",
        old="  props.uuid[sizeof props.uuid - 1] = static_cast<uint8_t>(device + "
            "1);\n",
        new="  props.uuid[sizeof props.uuid - 1] = 1;\n"),
    Mutant(
        name="total_memory_differs",
        what="total_memory is not what mem_info calls total.",
        witness="The two numbers differ.",
        items="", group="load", file="table/device.cc",
        old="  props.total_memory = config.memory;\n",
        new="  props.total_memory = config.memory - config.overhead;\n"),
    Mutant(
        name="priority_range_inverted",
        what="The greatest and the least priority are swapped.",
        witness="priority_greatest is numerically above priority_least.",
        items="C22", group="load", file="table/device.cc",
        old="  props.priority_least = config.priority_least;\n"
            "  props.priority_greatest = config.priority_greatest;\n",
        new="  props.priority_least = config.priority_greatest;\n"
            "  props.priority_greatest = config.priority_least;\n"),
    Mutant(
        name="priority_claimed",
        what="STREAM_PRIORITY is claimed, and there is one priority.",
        witness="The range is [0, 0].",
        items="C22", group="load", file="table/device.cc",
        old="  props.priority_least = config.priority_least;\n"
            "  props.priority_greatest = config.priority_greatest;\n",
        new="  props.priority_least = 0;\n"
            "  props.priority_greatest = 0;\n"),
    Mutant(
        name="set_device_waits",
        what="Setting the current device waits for the device.",
        witness="Behind a closed gate context_enter does not return.",
        items="C2", group="device", file="table/plugin.cc", header="table/backend.h",
        old="    return EnterDevice(device, previous);\n",
        new="    if (devrt_status error = device_sync(device)) return error;\n"
            "    return EnterDevice(device, previous);\n"),
    Mutant(
        name="current_device_of_process",
        what="All threads have one current device.",
        witness="A new thread finds the device that another one set.",
        items="C1", group="device", file="table/plugin.cc", header="engine/current_device.h",
        old="extern __thread uint32_t t_device "
            "__attribute__((tls_model(\"initial-exec\")));\n",
        new="inline uint32_t g_device_of_process = 0;\n"
            "#define t_device g_device_of_process\n"),
    Mutant(
        name="bad_ordinal_changes_device",
        what="Setting a device that does not exist sets device 0.",
        witness="With device 1 current, the refused call makes 0 current.",
        items="C3", group="device", file="table/plugin.cc", header="engine/current_device.h",
        old="  if (__builtin_expect(device >= g_device_count, 0)) return "
            "BadOrdinal(device);\n",
        new="  if (device >= g_device_count) {\n    t_device = 0;\n"
            "    return BadOrdinal(device);\n  }\n"),
    Mutant(
        name="context_exit_ignored",
        what="Leaving a context restores nothing.",
        witness="After enter and exit the device is still the entered one.",
        items="C96", group="guard", file="table/plugin.cc", header="engine/current_device.h",
        old="  t_device = static_cast<uint32_t>(previous->state[0]);\n",
        new=""),
    Mutant(
        name="context_enter_saves_nothing",
        what="Entering a context saves device 0, whatever was current.",
        witness="With device 1 current, enter and exit make 0 current.",
        items="C96", group="guard", file="table/plugin.cc", header="engine/current_device.h",
        old="*previous = devrt_context{{t_device, 0}};",
        new="*previous = devrt_context{{0, 0}};"),
    Mutant(
        name="device_sync_waits_for_others",
        what="Synchronising a device waits for the others, too.",
        witness="With a gate on device 1, device_sync of 0 does not return.",
        items="C5", group="device", file="engine/dependencies.cc",
        old=ALL_OF_DEVICE,
        new="""\
  for (const DeviceStreams& d : streams.devices()) {
    static_cast<void>(device);
    for (StreamCore* b = d.busy; b; b = b->busy_next) AddCovered(b, points);
  }
"""),
    Mutant(
        name="device_sync_misses_streams",
        what="Synchronising a device covers blocking streams only.",
        witness="A delayed non-blocking stream is not complete afterwards.",
        items="C5", group="device", file="engine/dependencies.cc",
        old=ALL_OF_DEVICE,
        new=ALL_OF_DEVICE.replace(
            "    AddCovered", "    if (IsBlocking(b)) AddCovered")),
    Mutant(
        name="device_sync_misses_first_thread",
        what="Synchronising a device covers no streams of ended threads.",
        witness="Work in the per-thread stream of a thread that has ended is "
                "not complete afterwards.",
        items="C5", group="device", file="engine/dependencies.cc",
        old=ALL_OF_DEVICE,
        new=ALL_OF_DEVICE.replace(
            "    AddCovered",
            "    if (b->kind != StreamKind::kPerThread) AddCovered")),
    Mutant(
        name="extension_of_any_name",
        what="Every name of an extension is known.",
        witness="get_extension(\"no.such/1\") is not NULL.",
        items="", group="load", file="table/plugin.cc",
        old="  return nullptr;\n}\n\n}  // namespace devrt::mtia\n\n"
            "using MtiaBackend",
        new="  return kExtensions[0].table;\n}\n\n}  // namespace devrt::mtia\n"
            "\nusing MtiaBackend"),
    Mutant(
        name="peer_access_claimed",
        what="PEER_ACCESS is claimed and not there.",
        witness="peer_can_access is UNIMPLEMENTED.",
        items="C76", group="peer", file="table/peers.cc",
        old="  if (devrt_status error = CheckPeers(device, peer)) return error;\n"
            "  Call call(Slot::peer_can_access,",
        new="  if (can != nullptr) {\n"
            "    return MakeError(DEVRT_UNIMPLEMENTED, 801, \"no peers\");\n"
            "  }\n"
            "  Call call(Slot::peer_can_access,"),
    Mutant(
        name="reset_denied",
        what="A simulator says that it cannot be reset.",
        witness="device_reset is 0 where devrt.sim/1 is offered.",
        items="C72", group="memory", file="table/device.cc",
        old="  props.device_reset = 1;\n",
        new="  props.device_reset = 0;\n"),
    Mutant(
        name="ends_at_exit",
        what="The devices are gone when the thread that opened the plugin ends.",
        witness="A static object that asks for a stream while the process ends "
                "is told that there is no such device.",
        items="C106", group="identity", file="table/plugin.cc",
        old="  auto backend = std::make_unique<Backend>();\n",
        new="  static thread_local const struct AtExit {\n"
            "    ~AtExit() { g_device_count = 0; }\n"
            "  } at_exit;\n"
            "  auto backend = std::make_unique<Backend>();\n"),
]
