// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/memory_resource.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "devrt/memory/resources.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/device/address_map.h"
#include "memory/resource/block_owners.h"
#include "runtime/common/text.h"
#include "runtime/common/thread_end.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_record.h"

namespace devrt {
namespace {

using internal::BlockOwners;
using internal::OwnedBlock;

absl::Status CheckDevice(const MemoryResource& resource, StreamRef stream,
                         const char* call) {
  if (stream.device() == resource.device()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(call, " of resource \"", resource.properties().name,
                   "\" needs a stream of ", resource.device().name()));
}

// The resource whose Do function the calling thread runs.
thread_local const MemoryResource* t_call = nullptr;

// Turns exceptions of a program's resource into errors.
template <typename F>
auto InDoFunction(const MemoryResource& resource, F f) -> decltype(f()) {
  const absl::Cleanup restore = [before = std::exchange(t_call, &resource)] {
    t_call = before;
  };
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("resource \"", resource.properties().name,
                     "\" has no memory (std::bad_alloc)"));
  } catch (const std::exception& e) {
    return absl::InternalError(
        absl::StrCat("resource \"", resource.properties().name,
                     "\" threw an exception: ", e.what()));
  } catch (...) {
    internal::PassThreadEnd();
    return absl::InternalError(absl::StrCat(
        "resource \"", resource.properties().name, "\" threw an exception"));
  }
}

bool IsKnownByAddress(const MemoryResource& resource) {
  return dynamic_cast<const internal::KnownByAddress*>(&resource) != nullptr;
}

absl::Status NoMemory(const MemoryResource& resource, uint64_t bytes) {
  OutOfMemoryInfo info;
  info.requested = bytes;
  return internal::OutOfMemoryError(
      resource.device().record(), info,
      absl::ResourceExhaustedError(absl::StrCat(
          "Resource \"", resource.properties().name, "\" has no room.")));
}

absl::Status CheckAlignment(const MemoryResource& resource, const void* pointer,
                            uint64_t asked) {
  const MemoryProperties properties = resource.properties();
  const uint64_t alignment = asked != 0 ? asked : properties.alignment;
  if (alignment == 0 ||
      (reinterpret_cast<uintptr_t>(pointer) & (alignment - 1)) == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat(
      "resource \"", properties.name, "\" gave a block at ",
      internal::Hex(pointer), ", which is not aligned to ", alignment,
      asked != 0 ? " bytes as asked for" : " bytes as its properties promise"));
}

std::string Describe(const OwnedBlock& block) {
  std::string text = absl::StrCat(
      "a live block of resource \"", block.resource->properties().name, "\", ",
      block.bytes, " bytes at ", internal::Hex(block.base));
  if (block.site.file != nullptr) {
    absl::StrAppend(&text, " allocated at ", block.site.file, ":",
                    block.site.line);
  }
  return text;
}

absl::Status OverlapError(const OwnedBlock& block, const std::string& other) {
  return absl::InternalError(absl::StrCat(
      "resource \"", block.resource->properties().name, "\" gave ", block.bytes,
      " bytes at ", internal::Hex(block.base), ", which overlap ", other));
}

bool Holds(const internal::AllocationRange& range, const OwnedBlock& block) {
  const uint64_t offset = reinterpret_cast<uintptr_t>(block.base) -
                          reinterpret_cast<uintptr_t>(range.base);
  return offset < range.size && block.bytes <= range.size - offset;
}

// Adds a new block of a resource to BlockOwners.  `known`: the block is found
// by its address, too.
absl::Status AddOwner(OwnedBlock block, bool known, internal::LiveCount* live) {
  // A range that devrt knows contains the whole block or no part of it.
  const auto overlapped =
      internal::AllocationTable::Get().FindOverlapped(block.base, block.bytes);
  if (overlapped.has_value() && !Holds(*overlapped, block)) {
    return OverlapError(block, internal::DescribeRange(*overlapped));
  }
  block.cached =
      known || internal::AddressMap::Get().Find(block.base) != nullptr;
  if (block.cached && !known) {
    // Memory of a caching allocator: this resource must hold the block around
    // it.
    const std::vector<OwnedBlock> around =
        BlockOwners::Get().FindAround(block.base);
    const bool held = std::any_of(
        around.begin(), around.end(),
        [&](const OwnedBlock& b) { return b.holder == block.resource; });
    if (!held) {
      return OverlapError(block, internal::DescribePointer(block.base));
    }
  }
  // Other blocks are counted by the resource that they were allocated from.
  block.counted = block.holder == nullptr && !block.cached &&
                  !internal::FindAllocation(block.base).has_value();
  const bool counted = block.counted;
  if (const auto other = BlockOwners::Get().Add(block)) {
    return OverlapError(block, Describe(*other));
  }
  if (counted) live->Keep();
  return absl::OkStatus();
}

// The one of `blocks` that belongs to `resource` or to an equal one.
absl::StatusOr<OwnedBlock> FindOwned(const MemoryResource& resource,
                                     const std::vector<OwnedBlock>& blocks,
                                     const void* pointer, const char* call) {
  for (const OwnedBlock& block : blocks) {
    if (block.resource == &resource) return block;
  }
  for (const OwnedBlock& block : blocks) {
    if (block.keep != nullptr && *block.keep == resource) return block;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      call, " of resource \"", resource.properties().name, "\" of ",
      resource.device().name(), " needs a live block of its own, but ",
      blocks.empty() ? internal::DescribePointer(pointer)
                     : absl::StrCat(internal::Hex(pointer), " is in ",
                                    Describe(blocks.front()))));
}

// Removes the block from BlockOwners.  nullopt: the block is not there, and the
// resource finds it by its address.
absl::StatusOr<std::optional<OwnedBlock>> RemoveOwned(
    const MemoryResource& resource, const void* pointer, uint64_t bytes) {
  const absl::StatusOr<OwnedBlock> block = FindOwned(
      resource, BlockOwners::Get().FindAt(pointer), pointer, "Deallocate");
  if (!block.ok()) {
    if (IsKnownByAddress(resource)) return std::nullopt;
    return block.status();
  }
  if (block->bytes != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Deallocate of ", bytes, " bytes at ", internal::Hex(pointer),
        ", but that is ", Describe(*block), ": pass the size of the request"));
  }
  if (!BlockOwners::Get().Remove(*block)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Deallocate of ", internal::Hex(pointer),
                     ": another thread freed the block at the same time"));
  }
  return block;
}

// The resources that the program has set; other devices have the caching one.
}  // namespace

MemoryResource::~MemoryResource() = default;

absl::StatusOr<void*> MemoryResource::Allocate(StreamRef stream, uint64_t bytes,
                                               uint64_t alignment,
                                               CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckDevice(*this, stream, "Allocate"));
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "Allocate"));
  internal::LiveCount live(device_.record());
  DEVRT_RETURN_IF_ERROR(
      internal::CheckRequest(device_.record(), bytes, alignment, "Allocate"));
  DEVRT_RETURN_IF_ERROR(internal::SettingsMistake());
  if (bytes == 0) return nullptr;
  internal::FixSettings(internal::SettingsUse::kDeviceMemory);
  const absl::StatusOr<void*> made = InDoFunction(*this, [&] {
    return DoAllocate({stream, bytes, alignment, site});
  });
  DEVRT_RETURN_IF_ERROR(made.status());
  if (*made == nullptr) return NoMemory(*this, bytes);
  DEVRT_RETURN_IF_ERROR(CheckAlignment(*this, *made, alignment));
  const bool known = IsKnownByAddress(*this);
  // A block that the program has of a caching allocator needs no entry.
  if (known && t_call == nullptr) return made;
  OwnedBlock block = {
      this, weak_from_this().lock(), t_call, *made, bytes, stream, site};
  DEVRT_RETURN_IF_ERROR(AddOwner(std::move(block), known, &live));
  return made;
}

absl::Status MemoryResource::Deallocate(StreamRef stream, void* pointer,
                                        uint64_t bytes, CallSite site) {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  if (pointer == nullptr) return absl::OkStatus();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Deallocate");
  }
  DEVRT_RETURN_IF_ERROR(CheckDevice(*this, stream, "Deallocate"));
  std::optional<OwnedBlock> block;
  if (!IsKnownByAddress(*this) || BlockOwners::HasCached()) {
    DEVRT_ASSIGN_OR_RETURN(block, RemoveOwned(*this, pointer, bytes));
  }
  // Also if the resource ends the thread.
  const absl::Cleanup count = [&] {
    if (block.has_value() && block->counted) {
      device_.record()->live_allocations.fetch_sub(1);
    }
  };
  // `block` keeps the resource alive, whose last block it may be.
  return InDoFunction(*this, [&] {
    return DoDeallocate({pointer, bytes, stream, site});
  });
}

absl::Status MemoryResource::RecordUse(const void* pointer, StreamRef stream,
                                       CallSite site) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("RecordUse");
  }
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "RecordUse"));
  if (!IsKnownByAddress(*this)) {
    DEVRT_RETURN_IF_ERROR(FindOwned(*this,
                                    BlockOwners::Get().FindAround(pointer),
                                    pointer, "RecordUse")
                              .status());
  }
  return InDoFunction(*this,
                      [&] { return DoRecordUse(pointer, stream, site); });
}

absl::Status MemoryResource::Trim() {
  if (internal::IsForkedChild()) return internal::ProcessClosedError();
  if (internal::InHostFunction()) return internal::HostFunctionError("Trim");
  return InDoFunction(*this, [&] { return DoTrim(); });
}

absl::Status MemoryResource::DoRecordUse(const void*, StreamRef, CallSite) {
  return absl::UnimplementedError(
      absl::StrCat("resource \"", properties().name, "\" does not track uses"));
}

}  // namespace devrt
