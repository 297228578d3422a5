// SPDX-License-Identifier: Apache-2.0
//
// ResourceTest: the fixture of the tests of resources.  It has a resource over
// a span of plain addresses, which nothing reads, and a program of calls for
// which every resource has to give equal results.

#ifndef DEVRT_TESTS_MEMORY_RESOURCES_RESOURCE_FIXTURE_H_
#define DEVRT_TESTS_MEMORY_RESOURCES_RESOURCE_FIXTURE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

// Does what its functions say.
class Scripted final : public MemoryResource {
 public:
  using Allocates = std::function<absl::StatusOr<void*>(const MemoryRequest&)>;
  using Frees = std::function<absl::Status(const MemoryReturn&)>;

  Scripted(Device device, Allocates allocate, Frees free = nullptr)
      : MemoryResource(device),
        allocate_(std::move(allocate)),
        free_(std::move(free)) {}
  ~Scripted() override {
    if (on_end) on_end();
  }

  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = "scripted";
    p.thread_safe = false;
    return p;
  }

  std::function<void()> on_end;

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    return allocate_(r);
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    return free_ ? free_(r) : absl::OkStatus();
  }

  const Allocates allocate_;
  const Frees free_;
};

// Addresses that no backend has.
inline void* Address(uint64_t offset) {
  return reinterpret_cast<void*>((uint64_t{1} << 46) + offset);
}

class ResourceTest : public MtiaTest {
 protected:
  static std::shared_ptr<MemoryResource> Raw() { return RawResource(dev()); }
  static StreamRef stream() { return DefaultStream(dev()); }

  // Frees of a lost device succeed; it hands out nothing
  // (docs/reference/semantics.md 2.5).
  static void ExpectALostDevicesBlocksGoBack(MemoryResource& r) {
    void* block = Must(r.Allocate(stream(), 64));
    ASSERT_OK(CommitFault(stream(), FaultForm::kTrap));
    dev().Synchronize().IgnoreError();
    EXPECT_FALSE(r.Allocate(stream(), 64).ok());
    EXPECT_OK(r.Deallocate(stream(), block, 64));
    Reset("");
  }

  // Checks the promises that every resource keeps.
  static void ExpectBasics(MemoryResource& r) {
    EXPECT_EQ(Must(r.Allocate(stream(), 0)), nullptr) << "C102";
    EXPECT_OK(r.Deallocate(stream(), nullptr, 0));
    void* a = Must(r.Allocate(stream(), 1000));
    void* b = Must(r.Allocate(stream(), 1000));
    ASSERT_NE(a, nullptr);
    EXPECT_NE(a, b);
    EXPECT_STATUS(r.Allocate(stream(), uint64_t{1} << 60), kResourceExhausted,
                  "more than 1EB");
    EXPECT_STATUS(r.Allocate(stream(), 100, 3), kInvalidArgument,
                  "not a power of two");
    EXPECT_STATUS(r.Allocate(DefaultStream(dev(1)), 100), kInvalidArgument,
                  "mtia:0");
    EXPECT_STATUS(r.Deallocate(DefaultStream(dev(1)), a, 1000),
                  kInvalidArgument, "mtia:0");
    EXPECT_STATUS(r.Deallocate(stream(), static_cast<char*>(a) + 1, 999),
                  kInvalidArgument, r.properties().name);
    EXPECT_OK(r.Deallocate(stream(), a, 1000));
    EXPECT_STATUS(r.Deallocate(stream(), a, 1000), kInvalidArgument,
                  r.properties().name);
    EXPECT_OK(r.Deallocate(stream(), b, 1000));
    EXPECT_OK(r.Trim());
    // Some resources free in the stream's order.
    EXPECT_OK(stream().Synchronize());
  }
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_RESOURCES_RESOURCE_FIXTURE_H_
