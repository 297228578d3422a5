# SPDX-License-Identifier: Apache-2.0
"""What docs/coming-from/rmm.md says of RMM, with the document that says it.

RMM is not measured. The claims were read in RMM's documents and headers, of releases
26.06 to 26.12.
"""

import claims

library = claims.Library("rmm")
TREE = "https://github.com/rapidsai/rmm/blob/main/"
HEADERS = TREE + "cpp/include/rmm/"
GUIDE = TREE + "docs/user_guide/"

for id, says, source in [
    ("RM1", "cuda_stream is a blocking stream unless flags::non_blocking is passed",
     HEADERS + "cuda_stream.hpp"),
    ("RM2", "cuda_stream_pool::get_stream may return one stream several times",
     TREE + "README.md"),
    ("RM3", "memory may be used on another stream only after an event or a wait, "
     "and a buffer that another stream uses must not end before that use; no call "
     "marks a use", GUIDE + "stream_ordered_allocation.md"),
    ("RM4", "a stream that was passed to deallocate must not be destroyed",
     TREE + "README.md"),
    ("RM5", "device_buffer frees on the stream that one of its methods was given last",
     HEADERS + "device_buffer.hpp"),
    ("RM6", "a resource is used with the device current that was current when it was "
     "made, otherwise the behaviour is undefined; containers switch by themselves",
     HEADERS + "mr/per_device_resource.hpp"),
    ("RM7", "a pool that takes a block of another stream makes the requesting stream "
     "wait for the event of the free",
     HEADERS + "mr/detail/stream_ordered_memory_resource.hpp"),
    ("RM8", "pool_memory_resource returns no memory to its upstream before it ends",
     GUIDE + "choosing_memory_resources.md"),
    ("RM9", "the initial resource is cuda_memory_resource: cudaMalloc and cudaFree",
     HEADERS + "mr/per_device_resource.hpp"),
    ("RM10", "the resource of a device is set before the first allocation; a later "
     "change may crash", GUIDE + "guide.md"),
    ("RM11", "allocate throws rmm::bad_alloc or rmm::out_of_memory; deallocate is "
     "noexcept; Python raises MemoryError", TREE + "docs/migration_guide_2606.md"),
    ("RM12", "allocate and deallocate of a resource are safe for threads, its "
     "construction and destruction are not", GUIDE + "cpp_guide.md"),
    ("RM13", "since 26.06 there is no base class: a resource satisfies "
     "cuda::mr::resource, and copies of a resource share their state",
     TREE + "docs/migration_guide_2606.md"),
    ("RM14", "there is no current stream: containers and resources take one",
     HEADERS + "device_buffer.hpp"),
    ("RM15", "cuda_set_device_raii restores the former device",
     HEADERS + "cuda_device.hpp"),
    ("RM16", "memory is aligned to 256 bytes", GUIDE + "cpp_guide.md"),
    ("RM17", "26.12 removes rmm::cuda_stream_view; cuda::stream_ref replaces it",
     TREE + "docs/migration_guide_2612.md"),
]:
    library.documented(id, says, source)
