# SPDX-License-Identifier: Apache-2.0
"""Defects of memory: allocation, pointers, registration.

Allocations of 0 bytes and most wrong frees are the core's to answer; see
README.md."""

from mutants import Mutant

OUT_OF_MEMORY = ("  return MakeError(\n"
                 "      DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,\n")
IS_HOST = "  if (r.space == Space::kHost) {\n"

MUTANTS = [
    Mutant(
        name="alignment_ignored",
        what="The alignment that is asked for is ignored.",
        witness="Blocks of alignment 64 KiB begin at other addresses.",
        items="", group="memory", file="memory/block_records.cc",
        old="  if (alignment < granularity) alignment = granularity;\n",
        new="  alignment = granularity;\n"),
    Mutant(
        name="alignment_overstated",
        what="alloc_alignment promises more than the allocator keeps.",
        witness="A block is not aligned to the property.",
        items="", group="memory", file="table/device.cc",
        old="static_cast<uint32_t>(config.granularity);\n",
        new="static_cast<uint32_t>(config.granularity * 64);\n"),
    Mutant(
        name="allocations_overlap",
        what="Large blocks get half of the addresses that they need.",
        witness="Filling one block changes the next.",
        items="", group="memory", file="memory/block_records.cc",
        old="  block->span = block->rounded + RoundUp(options_.gap, granularity)"
            ";\n",
        new="  block->span = RoundUp(block->rounded / 2, granularity);\n"),
    Mutant(
        name="oom_changes_state",
        what="An allocation that fails keeps some memory.",
        witness="mem_info tells of less free memory afterwards.",
        items="C62", group="memory", file="memory/capacity.cc",
        old=OUT_OF_MEMORY,
        new="  const_cast<Capacity*>(this)->used_ += options_.granularity;\n" +
            OUT_OF_MEMORY),
    Mutant(
        name="oom_is_sticky",
        what="After an allocation that failed all others fail.",
        witness="1 MiB is refused after a request that was too large.",
        items="C62", group="memory", file="memory/block_table.cc",
        old="  if (capacity.IsTooLarge(size) || !capacity.Allocate(&block)) {\n",
        new="  static bool failed = false;\n"
            "  failed = failed || capacity.IsTooLarge(size);\n"
            "  if (failed || !capacity.Allocate(&block)) {\n"),
    Mutant(
        name="oom_has_wrong_code",
        what="Out of memory is reported as an internal error.",
        witness="The code is INTERNAL, not RESOURCE_EXHAUSTED.",
        items="C62", group="memory", file="memory/capacity.cc",
        old=OUT_OF_MEMORY,
        new=OUT_OF_MEMORY.replace("RESOURCE_EXHAUSTED", "INTERNAL")),
    Mutant(
        name="free_leaks",
        what="Memory that was freed stays taken.",
        witness="mem_info does not come back to where it was.",
        items="C62", group="memory", file="memory/block_records.cc",
        old="  capacity_.Free(*block);\n  FreeAddress(*block);\n",
        new="  FreeAddress(*block);\n"),
    Mutant(
        name="free_of_interior_accepted",
        what="Freeing a pointer into a block frees the block.",
        witness="The plugin's dealloc accepts an interior pointer.",
        items="C63", group="memory", file="memory/block_table.cc",
        old="  const auto found = records_.blocks().find(offset);\n",
        new="""\
  auto& blocks = records_.blocks();
  const auto nearest = records_.Nearest(offset);
  const auto found = nearest == blocks.end() ? blocks.end()
                                             : blocks.find(nearest->first);
"""),
    Mutant(
        name="second_free_accepted",
        what="Freeing a block again is accepted.",
        witness="The plugin's second dealloc of a pointer succeeds.",
        items="C63", group="memory", file="memory/block_table.cc",
        old="    return InvalidArgument(\"second free, at \" + "
            "CallSite(site).Text() +\n                           \", of \" + "
            "records_.Describe(offset));\n",
        new="    return nullptr;\n"),
    Mutant(
        name="free_waits",
        what="A free waits for the device, though raw_free_syncs says no.",
        witness="Behind a closed gate the call does not return.",
        items="C64", group="memory", file="table/memory.cc",
        old="  if (!g_machine->config.raw_free_syncs || device >= g_device_count)"
            " {\n",
        new="  if (device >= g_device_count) {\n"),
    Mutant(
        name="mem_info_not_monotone",
        what="mem_info tells of the memory in use as of the free memory.",
        witness="After an allocation there is more of it.",
        items="C62", group="memory", file="table/memory.cc",
        old="  memory->Info(device, free_bytes, total_bytes);\n",
        new="  memory->Info(device, free_bytes, total_bytes);\n"
            "  *free_bytes = *total_bytes - *free_bytes;\n"),
    Mutant(
        name="mem_info_constant",
        what="mem_info always tells of all memory as free.",
        witness="After an allocation there is as much as before.",
        items="C62", group="memory", file="table/memory.cc",
        old="  memory->Info(device, free_bytes, total_bytes);\n",
        new="  memory->Info(device, free_bytes, total_bytes);\n"
            "  *free_bytes = *total_bytes;\n"),
    Mutant(
        name="mem_info_of_first_device",
        what="mem_info answers for device 0 whatever it is asked.",
        witness="An allocation on device 1 shows in device 0.",
        items="C4", group="memory", file="table/memory.cc",
        old="  memory->Info(device, free_bytes, total_bytes);\n",
        new="  memory->Info(0, free_bytes, total_bytes);\n"),
    Mutant(
        name="alloc_changes_current_device",
        what="An allocation leaves its device as the thread's current one.",
        witness="With device 0 current, an allocation on 1 makes 1 current.",
        items="C4", group="device", file="table/memory.cc",
        old="  error = memory->Alloc(device, size, alignment, CurrentSite(), ptr);\n",
        new="  error = memory->Alloc(device, size, alignment, CurrentSite(), ptr);\n"
            "  t_device = device;\n"),
    Mutant(
        name="alloc_not_thread_safe",
        what="An allocation writes the pointer into a place that all threads "
             "share.",
        witness="Threads that allocate at a time get the same block.",
        items="C97", group="threads", file="table/memory.cc",
        config="mode=threaded",
        old="  DeviceCall call(Slot::alloc, device);\n",
        new="""\
  static void* made;
  struct Late {
    void** const out;
    ~Late() {
      made = *out;
      const timespec nap = {0, 200'000};
      nanosleep(&nap, nullptr);
      *out = made;
    }
  };
  const Late late = {ptr};
  DeviceCall call(Slot::alloc, device);
"""),
    # ---- pointers: C71 ----
    Mutant(
        name="interior_pointer_unknown",
        what="Only the first byte of a block is known as its own.",
        witness="pointer_info of an interior pointer says unregistered.",
        items="C71", group="memory", file="table/memory.cc",
        old=IS_HOST, new="  if (r.space == Space::kHost || r.base != ptr) {\n"),
    Mutant(
        name="freed_pointer_known",
        what="Freed memory is still known as device memory.",
        witness="pointer_info of a freed pointer says device.",
        items="C71", group="memory", file="memory/block_table.cc",
        old="  if (!block.live || offset - block.offset >= block.size) return "
            "false;\n",
        new="  if (offset - block.offset >= block.size) return false;\n"),
    Mutant(
        name="host_pointer_is_an_error",
        what="Asking about a host pointer is an error.",
        witness="pointer_info of a pointer to the stack fails.",
        items="C71", group="memory", file="table/memory.cc",
        old=IS_HOST,
        new=IS_HOST + "    if (ptr != nullptr) return NotAllocated();\n"),
    Mutant(
        name="pointer_of_wrong_device",
        what="All device memory is said to be of device 0.",
        witness="pointer_info of memory of device 1 says 0.",
        items="C71", group="memory", file="table/memory.cc",
        old="    out.device = static_cast<int32_t>(r.device);\n",
        new="    out.device = 0;\n"),
    Mutant(
        name="pointer_size_rounded",
        what="The size of an allocation is the one that it was rounded to.",
        witness="pointer_info of a block of 1,000 bytes says 1,024.",
        items="C71", group="memory", file="table/memory.cc",
        old="    out.size = r.own;\n",
        new="    out.size = (r.own + 511) & ~uint64_t{511};\n"),
    Mutant(
        name="pinned_pointer_unknown",
        what="Pinned memory is not known as such.",
        witness="pointer_info of pinned memory says unregistered.",
        items="C71", group="memory", file="table/memory.cc",
        old=IS_HOST,
        new="  if (r.space == Space::kHost || r.space == Space::kPinned) {\n"),
    # ---- registration: C70 ----
    Mutant(
        name="register_overlap_accepted",
        what="Host memory may be registered twice.",
        witness="The second registration is not ALREADY_EXISTS.",
        items="C70", group="memory", file="memory/host_ranges.cc",
        old="  if (overlapped != ranges_.end()) {\n",
        new="  if (overlapped != ranges_.end()) return nullptr;\n"
            "  if (overlapped != ranges_.end()) {\n"),
    Mutant(
        name="register_does_nothing",
        what="Registering host memory does nothing.",
        witness="pointer_info still says unregistered.",
        items="C70", group="memory", file="memory/memory.cc",
        old="  return impl_->registered.Add(device, begin, size, site);\n",
        new="  return nullptr;\n"),
    Mutant(
        name="unregister_unknown_accepted",
        what="Memory that is not registered can be unregistered.",
        witness="The call is not NOT_FOUND.",
        items="C70", group="memory", file="memory/host_ranges.cc",
        old="    return MakeError(DEVRT_NOT_FOUND, kNotRegistered,\n"
            "                     Hex(begin) + \" is not registered\");\n",
        new="    return nullptr;\n"),
    Mutant(
        name="unregister_interior_accepted",
        what="A pointer into a registered range unregisters it.",
        witness="The call is not INVALID_ARGUMENT.",
        items="C70", group="memory", file="memory/host_ranges.cc",
        old="  if (found->first != begin) {\n",
        new="  if (begin == 0) {\n"),
    Mutant(
        name="async_alloc_waits",
        what="A stream-ordered allocation waits for its stream.",
        witness="It does not return while the stream is held.",
        items="C65", group="memory", file="table/memory.cc",
        old="  op->dst = *ptr;\n  op->size = size;\n  op->block = id;\n"
            "  g_machine->scheduler.Submit(op);\n  return nullptr;\n",
        new="""\
  op->dst = *ptr;
  op->size = size;
  op->block = id;
  g_machine->scheduler.Submit(op);
  Points& want = submission.call().me()->want;
  want.clear();
  want.push_back({submission.core(), submission.core()->issued});
  return submission.call().Wait();
"""),
    Mutant(
        name="async_free_at_once",
        what="A stream-ordered free happens in its call.",
        witness="Earlier work of the stream finds no memory.",
        items="C65", group="memory", file="table/memory.cc",
        old="  // Frees succeed after a fault (C94).  No operation of the stream "
            "will run, so\n",
        new="  static_cast<void>(memory->EndOrdered(ptr, id, false));\n"),
    Mutant(
        name="async_free_is_lost",
        what="A stream-ordered free gives nothing back.",
        witness="There is less free memory afterwards.",
        items="C65", group="memory", file="memory/ordered_blocks.cc",
        old="  records_.End(&found->second, paint);\n",
        new=""),
    Mutant(
        name="async_frees_lend_nothing",
        what="A stream gets nothing of what it has freed before it has come to "
             "the free.",
        witness="A held stream cannot allocate five times as much as there is.",
        items="C67", group="memory", file="memory/ordered_blocks.cc",
        old="    if (!lender.live || lender.closed_by != stream) continue;\n",
        new="    if (lender.closed_by != 0 || stream == 0) continue;\n"),
    Mutant(
        name="async_oom_lends",
        what="A stream-ordered allocation that fails gives pending frees away.",
        witness="mem_info tells of more free memory afterwards.",
        items="C62", group="memory", file="memory/ordered_blocks.cc",
        old="    capacity = before;\n",
        new="    static_cast<void>(before);\n"),
    Mutant(
        name="async_alignment_ignored",
        what="Stream-ordered memory has the natural alignment only.",
        witness="Blocks of alignment 1 MiB begin at other addresses.",
        items="", group="memory", file="table/memory.cc",
        old="memory->AllocOrdered(s->device, size, alignment,",
        new="memory->AllocOrdered(s->device, size, alignment & 1,"),
    Mutant(
        name="async_free_of_interior_accepted",
        what="A stream-ordered free of a pointer into a block does nothing.",
        witness="It is no error.",
        items="C63", group="memory", file="memory/ordered_blocks.cc",
        old="  if (found == records_.blocks().end()) {\n    return InvalidArgument(",
        new="  if (found == records_.blocks().end()) {\n    return records_.live() != 0 ? nullptr : "
            "InvalidArgument("),
    Mutant(
        name="async_unknown_to_pointer_info",
        what="pointer_info does not know stream-ordered memory.",
        witness="It is no device's.",
        items="C71", group="memory", file="table/memory.cc",
        old="  if (r.closed != kNotClosed) r = Resolved();\n",
        new="  if (r.ordered) r = Resolved();\n"),
    Mutant(
        name="async_peers_do_not_reach",
        what="peer_enable does not cover stream-ordered memory.",
        witness="A fill by the peer is refused.",
        items="C77", group="memory", file="table/copy.cc",
        old="  if (!IsDevice(r) || r.device == s->device ||\n"
            "      g_machine->memory.IfMade()->PeerEnabled(s->device, r.device)) {\n",
        new="  if (!IsDevice(r) || r.device == s->device ||\n"
            "      (!r.ordered &&\n"
            "       g_machine->memory.IfMade()->PeerEnabled(s->device, r.device))) {\n"),
    Mutant(
        name="async_is_there_at_once",
        what="Stream-ordered memory may be used before its allocation.",
        witness="Nothing tells of a use that no event orders behind it.",
        items="C65", group="memory", file="memory/ordered_blocks.cc",
        old="  block.ordered = block.is_pending = true;\n",
        new="  block.ordered = true;\n"),
    Mutant(
        name="async_use_after_free_passes",
        what="Stream-ordered memory may be used until its free has run.",
        witness="Nothing tells of a use that is submitted after the free.",
        items="C66", group="memory", file="table/copy.cc",
        old="  if (r.closed != kNotClosed) {\n",
        new="  if (r.closed == 0) {\n"),
]
