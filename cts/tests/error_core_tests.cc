// SPDX-License-Identifier: Apache-2.0
//
// Faults through the C++ API: the contents of statuses, and quarantine.
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/lost_device.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace error_core_tests {
namespace {

void MayDie(Test& t) {
  if (t.machine().props(t.device()).fault_delivery ==
      DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
}

Stream& NewStream(Test& t, size_t device = 0) {
  return NeverDestroyed<Stream>(
      t.Require(Stream::Create(t.cpp_device(device)), "Stream::Create"));
}

// The status of the first call that has to report the fault.
absl::Status Fault(Test& t, FaultForm form = FaultForm::kNullWrite) {
  MayDie(t);
  const Stream& s = NewStream(t);
  t.Ok(CommitFault(s, form), "CommitFault");
  const absl::Status status = s.Synchronize();
  t.Require(!status.ok(), "a synchronisation behind a fault reports it");
  return status;
}

void Origin(Test& t) {
  const absl::Status status = Fault(t);
  t.Code(status, DEVRT_INTERNAL, "a fault",
         absl::StrCat("earlier work on ", t.cpp_device().name()));
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  t.Require(info.has_value(), "the status of a fault has an ErrorInfo");
  t.Expect(info->backend == t.machine().backend().name(), "backend");
  t.Equal(info->device, static_cast<int>(t.device()), "device at fault");
  t.Expect(info->native_code != 0, "it has the native code");
  t.Expect(!info->native_name.empty(), "it has the native name");
  t.Expect(!info->entry_point.empty(), "it has the entry point");
  t.Expect(info->sticky, "a fault is sticky");
  t.Expect(info->async, "it was caused by earlier work, not by the call");
}

void FirstOfTwo(Test& t) {
  MayDie(t);
  const Stream& s = NewStream(t);
  {
    Gate& gate = NeverDestroyed<Gate>(t);
    gate.Hold(s);
    t.Ok(CommitFault(s, FaultForm::kAssert), "CommitFault");
    t.Ok(CommitFault(s, FaultForm::kTrap), "CommitFault");
    gate.Open();
  }
  const absl::Status first = s.Synchronize();
  t.Code(first, DEVRT_INTERNAL, "the first report");
  for (int i = 0; i < 2; ++i) {
    const absl::Status later = t.cpp_device().Synchronize();
    t.Code(later, DEVRT_INTERNAL, "a later report",
           absl::StrCat("device ", t.cpp_device().name(),
                        " is quarantined: ", first.message()));
  }
}

// Each kind of call may be the first to report the fault.
void EveryLaterCall(Test& t) {
  const Device device = t.cpp_device();
  const CoreBlock& x = NeverDestroyed<CoreBlock>(t, device, uint64_t{64});
  const CoreBlock& y = NeverDestroyed<CoreBlock>(t, device, uint64_t{64});
  const Stream& s = NewStream(t);
  const Event& e =
      NeverDestroyed<Event>(t.Require(Event::Create(device), "Event::Create"));
  t.Ok(e.Record(s), "Record");
  const absl::Status first = Fault(t);
  const std::string want = absl::StrCat("device ", device.name(),
                                        " is quarantined: ", first.message());
  uint8_t host[64] = {};
  const std::pair<const char*, absl::Status> calls[] = {
      {"Allocate", Allocate(device, 10).status()},
      {"Stream::Create", Stream::Create(device).status()},
      {"Flag::Create", Flag::Create(device).status()},
      {"Synchronize of a stream", s.Synchronize()},
      {"Query of a stream", s.Query().status()},
      {"Synchronize of the device", device.Synchronize()},
      {"Health", device.Health()},
      {"FillAsync", FillAsync(s, x.ptr(), 1, 64)},
      {"CopyAsync", CopyAsync(s, x.ptr(), y.ptr(), 64)},
      {"Copy to the host", Copy(s, host, x.ptr(), 64)},
      {"Copy from the host", Copy(s, x.ptr(), host, 64)},
      {"Record", e.Record(s)},
      {"Wait", s.Wait(e)},
      {"Spin", Spin(s, 10)},
  };
  for (const auto& [name, status] : calls) {
    t.Code(status, DEVRT_INTERNAL, name, want);
    const std::optional<ErrorInfo> info = GetErrorInfo(status);
    t.Expect(info.has_value() && info->sticky && info->device == device.index(),
             absl::StrCat(name, " returns the stored error with its origin"));
  }
}

void StillAnswered(Test& t) {
  const Device device = t.cpp_device();
  const Stream& s = NewStream(t);
  const uint64_t id = s.id();
  const DeviceProperties before = t.Require(device.Properties(), "Properties");
  (void)Fault(t);
  t.Equal(t.machine().backend().device_count(),
          static_cast<int>(t.machine().backend().devices().size()),
          "the number of devices");
  t.Expect(t.Require(device.Properties(), "Properties").name == before.name,
           "properties are as before");
  t.Equal(s.id(), id, "the id of a stream");
  t.Expect(s.device() == device, "the device of a stream");
  t.Expect(CurrentStream(device).device() == device, "the current stream");
  t.Ok(CurrentDevice(t.machine().backend()).status(), "the current device");
}

void Cleanup(Test& t) {
  const Device device = t.cpp_device();
  auto stream = std::make_unique<Stream>(
      t.Require(Stream::Create(device), "Stream::Create"));
  auto event = std::make_unique<Event>(
      t.Require(Event::Create(device), "Event::Create"));
  auto unrecorded = std::make_unique<Event>(
      t.Require(Event::Create(device), "Event::Create"));
  auto flag =
      std::make_unique<Flag>(t.Require(Flag::Create(device), "Flag::Create"));
  void* const block = t.Require(Allocate(device, 100), "Allocate");
  void* pinned = nullptr;
  if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    pinned = t.Require(AllocateHost(device, 100), "AllocateHost");
  }
  const bool registers = t.machine().Has(DEVRT_CAP_HOST_REGISTER);
  std::vector<uint8_t> registered(8192);
  if (registers) {
    t.Ok(RegisterHost(device, registered.data(), 8192), "RegisterHost");
  }
  t.Ok(event->Record(*stream), "Record");
  (void)Fault(t);
  unrecorded.reset();
  event.reset();
  stream.reset();
  flag.reset();
  t.Ok(Free(device, block), "a free after a fault");
  t.Code(Free(device, block), DEVRT_INVALID_ARGUMENT, "a second one");
  if (pinned != nullptr) t.Ok(FreeHost(pinned), "a pinned free after a fault");
  if (registers) {
    t.Ok(UnregisterHost(device, registered.data()),
         "the end of a registration after a fault");
  }
  t.Code(device.Synchronize(), DEVRT_INTERNAL, "the device is still lost");
}

void Guards(Test& t) {
  const Device device = t.cpp_device();
  const auto before =
      t.Require(CurrentDevice(t.machine().backend()), "CurrentDevice");
  {
    const DeviceGuard around(device);
    (void)Fault(t);
    const DeviceGuard inside(device);
    t.Expect(!inside.status().ok(), "a guard of a lost device says so");
  }
  t.Expect(t.Require(CurrentDevice(t.machine().backend()), "CurrentDevice") ==
               before,
           "the guard around a fault restores the device");
}

// The first error without what devrt adds for a call that it refuses later.
std::string FirstError(const absl::Status& status) {
  std::string text(status.message());
  const std::string before = " is quarantined: ";
  if (const size_t at = text.find(before); at != std::string::npos) {
    text.erase(0, at + before.size());
  }
  const size_t behind = text.rfind("; refused call: ");
  if (behind != std::string::npos) text.erase(behind);
  return text;
}

void AllThreads(Test& t) {
  MayDie(t);
  constexpr size_t kThreads = 4;
  const Stream& s = NewStream(t);
  t.Ok(Spin(s, 2'000'000), "Spin");
  t.Ok(CommitFault(s, FaultForm::kTrap), "CommitFault");
  absl::Status seen[kThreads];
  Threads threads;
  for (absl::Status& status : seen) {
    threads.Start([&] { status = s.Synchronize(); });
  }
  threads.Join();
  for (const absl::Status& status : seen) {
    t.Code(status, DEVRT_INTERNAL, "a thread that waits for a failed stream");
    t.Expect(FirstError(status) == FirstError(seen[0]),
             "all threads see one first error");
  }
}

void OtherDevices(Test& t) {
  const absl::Status first = Fault(t);
  const Device other = t.cpp_device(1);
  if (!FaultsStayWithTheirDevice(t)) {
    t.Code(other.Synchronize(), DEVRT_INTERNAL, "another device");
    t.Code(other.Health(), DEVRT_INTERNAL, "another device's health");
    return;
  }
  t.Ok(other.Health(), "another device is healthy");
  const CoreBlock x(t, other, 100);
  x.Write(std::vector<uint8_t>(100, 3));
  t.Expect(x.Holds(3), "another device works");
}

// The first call that may report a fault is a blocking copy behind it.
void BlockingCopyIsFirst(Test& t) {
  MayDie(t);
  const CoreBlock& x =
      NeverDestroyed<CoreBlock>(t, t.cpp_device(), uint64_t{64});
  const Stream& s = NewStream(t);
  std::vector<uint8_t> host(64, 9);
  t.Ok(CommitFault(s, FaultForm::kNullWrite), "CommitFault");
  t.Code(Copy(s, host.data(), x.ptr(), 64), DEVRT_INTERNAL,
         "a blocking copy behind a fault",
         absl::StrCat("earlier work on ", t.cpp_device().name()));
  t.Expect(host == std::vector<uint8_t>(64, 9), "it has copied nothing");
  t.Code(s.Synchronize(), DEVRT_INTERNAL, "a later call");
}

// Frees and destructors after a fault that no call has reported yet.
void CleanupIsFirst(Test& t) {
  MayDie(t);
  const Device device = t.cpp_device();
  const Stream& s = NewStream(t);
  std::optional<Stream> other = t.Require(Stream::Create(device), "a stream");
  std::optional<Event> event = t.Require(Event::Create(device), "an event");
  void* const block = t.Require(Allocate(device, 100), "Allocate");
  t.Ok(event->Record(*other), "Record");
  t.Ok(CommitFault(s, FaultForm::kNullWrite), "CommitFault");
  t.Settle();
  event.reset();
  other.reset();
  t.Ok(Free(device, block), "a free behind a fault");
  t.Code(s.Synchronize(), DEVRT_INTERNAL, "the synchronisation that reports");
}

constexpr uint32_t kFault = kNeedsProbe | kOwnProcess;

constexpr TestCase kTests[] = {
    {"error.origin", "C92",
     "The status of a fault carries backend, device, native code and name, "
     "entry point, sticky and async, and says that earlier work caused it.",
     &Origin, 0, kFault},
    {"error.first_of_two", "C93",
     "The first error is stored, and every later call returns it.", &FirstOfTwo,
     0, kFault},
    {"error.every_later_call", "C93 C92",
     "Every call on a quarantined device returns the stored error.",
     &EveryLaterCall, 0, kFault},
    {"error.still_answered", "C92",
     "Count, properties, names, ids and the current device can be queried "
     "after a fault.",
     &StillAnswered, 0, kFault},
    {"error.cleanup_succeeds", "C94",
     "Frees, destroys and destructors succeed after a sticky error.", &Cleanup,
     0, kFault},
    {"error.guards_restore", "C94 C96",
     "A guard around a fault restores; a guard of a lost device says why it "
     "does nothing.",
     &Guards, 0, kFault},
    {"error.all_threads_see_the_first", "C93",
     "All threads see one first error.", &AllThreads, 0, kFault},
    {"error.blocking_copy_is_first", "C92",
     "A blocking copy behind failed work reports it.", &BlockingCopyIsFirst, 0,
     kFault},
    {"error.cleanup_is_first", "C92 C94",
     "Frees and destructors behind failed work report nothing, and leave the "
     "report to the next synchronisation.",
     &CleanupIsFirst, 0, kFault},
    {"error.other_devices_through_the_core", "C95",
     "Other devices of the backend keep working, unless fault_scope=process.",
     &OtherDevices, 0, kFault | kTwoDevices},
};

}  // namespace
}  // namespace error_core_tests

absl::Span<const TestCase> CoreErrorTests() { return error_core_tests::kTests; }

}  // namespace devrt::cts
