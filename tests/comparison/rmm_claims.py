# SPDX-License-Identifier: Apache-2.0
"""Claims of docs/coming-from/rmm.md about RMM, each with the document that says so.

RMM is not measured. The claims were read in RMM's documents and headers of 2025 and
2026, which are linked at the commit that was read.
"""

import claims

library = claims.Library("rmm")
TREE = "https://github.com/rapidsai/rmm/blob/"


def read(id, says, commit, path):
    library.documented(id, says, f"{TREE}{commit}/{path}")


read("RM1", "cuda_stream is a blocking stream unless flags::non_blocking is passed",
     "0059816216e838bfbf3146461e5139bebe3cc664", "cpp/include/rmm/cuda_stream.hpp")
read("RM2", "cuda_stream_pool::get_stream may return one stream several times",
     "0637f84a43142c2804e05db2197acc6c1ef369d9",
     "cpp/include/rmm/cuda_stream_pool.hpp")
read("RM3", "memory may be used on another stream only after an event or a wait, and a "
     "buffer that another stream uses must not end before that use",
     "0a634e0f93aeaf2d9ad176ae8f6810888307a7dc",
     "docs/user_guide/stream_ordered_allocation.md")
read("RM4", "a stream that was passed to deallocate must not be destroyed",
     "2589030f2c4532b3cd560f491e8f7020c1e97f73", "README.md")
read("RM5", "device_buffer frees on the stream that one of its methods was given last",
     "006640499b59470f663d1e0c7ab9e5ff62ba1516", "cpp/include/rmm/device_buffer.hpp")
read("RM6", "a resource is used with the device current that was current when it was "
     "made, otherwise the behaviour is undefined",
     "09cb70f25001ca3821061e1d74746b9128cafaa3",
     "cpp/include/rmm/mr/per_device_resource.hpp")
read("RM7", "a pool that takes a block of another stream makes the requesting stream "
     "wait for the event of the free", "032b3a6d6f4b718a5ab0bf8fd2d9db726d5294b6",
     "cpp/include/rmm/mr/detail/stream_ordered_memory_resource.hpp")
read("RM8", "pool_memory_resource returns no memory to its upstream before it ends",
     "0a634e0f93aeaf2d9ad176ae8f6810888307a7dc",
     "docs/user_guide/choosing_memory_resources.md")
read("RM9", "the initial resource is cuda_memory_resource",
     "09cb70f25001ca3821061e1d74746b9128cafaa3",
     "cpp/include/rmm/mr/per_device_resource.hpp")
read("RM10", "the resource of a device is set before the first allocation; a later "
     "change may crash", "03de6a405a3c8327580d8c0ea0150e9815404f5d",
     "docs/user_guide/guide.md")
read("RM11", "an allocation that fails throws rmm::bad_alloc",
     "006640499b59470f663d1e0c7ab9e5ff62ba1516", "cpp/include/rmm/device_buffer.hpp")
read("RM12", "allocate and deallocate of a resource are safe for threads, its "
     "construction and destruction are not",
     "5162c1b9fe54dfc823bd205e5cf6d3f90520b538", "docs/user_guide/cpp_guide.md")
read("RM13", "since 26.06 there is no base class: a resource satisfies "
     "cuda::mr::resource, and copies of a resource share their state",
     "0c57be4b4be3f4472f0c14e644692805ee15b289", "docs/migration_guide_2606.md")
read("RM14", "there is no current stream: a device_buffer is given one",
     "006640499b59470f663d1e0c7ab9e5ff62ba1516", "cpp/include/rmm/device_buffer.hpp")
read("RM15", "cuda_set_device_raii restores the former device",
     "008a99b730c5dcf2476ecfa0fa68103c4b035678", "cpp/include/rmm/cuda_device.hpp")
read("RM16", "memory is aligned to 256 bytes at least",
     "5162c1b9fe54dfc823bd205e5cf6d3f90520b538", "docs/user_guide/cpp_guide.md")
read("RM17", "26.12 removes rmm::cuda_stream_view; cuda::stream_ref replaces it",
     "ffdebe610b98bf16f7af9b79416665491884a9ee", "docs/migration_guide_2612.md")
read("RM18", "deallocate is noexcept since 26.06",
     "0c57be4b4be3f4472f0c14e644692805ee15b289", "docs/migration_guide_2606.md")
