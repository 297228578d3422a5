// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_host.h"

#include <utility>

namespace devrt::test {

// Not named devrt_error, because a program may also link the runtime, which has
// a struct of this name.
struct FakeError {
  FakeError(FakeHost* owner, devrt_code error_code, int64_t native,
            std::string what)
      : host(owner),
        code(error_code),
        native_code(native),
        text(std::move(what)) {
    host->live_errors_.fetch_add(1);
  }
  ~FakeError() { host->live_errors_.fetch_sub(1); }
  FakeError(const FakeError&) = delete;
  FakeError& operator=(const FakeError&) = delete;

  FakeHost* host;
  devrt_code code;
  int64_t native_code;
  std::string text;
  uint32_t flags = 0;
  int32_t device = -1;
  std::string native_name;
  std::string entry_point;
};

namespace {

constexpr devrt_call_site_v0 kUnknownSite = {nullptr, 0, 0, nullptr};
thread_local devrt_call_site_v0 t_site = kUnknownSite;

FakeError* Error(devrt_status status) {
  return reinterpret_cast<FakeError*>(status);
}

std::string TextOrEmpty(const char* text) {
  return text != nullptr ? text : "";
}

}  // namespace

struct FakeHost::Calls {
  static devrt_status ErrorCreate(void* host, devrt_code code,
                                  int64_t native_code, const char* text,
                                  uint64_t size) {
    return reinterpret_cast<devrt_status>(
        new FakeError(static_cast<FakeHost*>(host), code, native_code,
                      std::string(text, size)));
  }

  static void ErrorSetOrigin(void*, devrt_status status,
                             const devrt_error_origin_v0* origin) {
    FakeError* error = Error(status);
    error->flags = origin->flags;
    error->native_code = origin->native_code;
    error->device = origin->device;
    error->native_name = TextOrEmpty(origin->native_name);
    error->entry_point = TextOrEmpty(origin->entry_point);
  }

  static devrt_code ErrorCode(void*, devrt_status status) {
    return status == nullptr ? DEVRT_OK : Error(status)->code;
  }

  static const char* ErrorText(void*, devrt_status status, uint64_t* size) {
    *size = Error(status)->text.size();
    return Error(status)->text.c_str();
  }

  static void ErrorDestroy(void*, devrt_status status) { delete Error(status); }

  static int32_t LogMinLevel(void*) { return DEVRT_LOG_DEBUG; }

  static void Log(void* host, int32_t level, const char*, int32_t,
                  const char* text, uint64_t size) {
    auto* self = static_cast<FakeHost*>(host);
    const std::lock_guard lock(self->mutex_);
    self->logs_.push_back(std::to_string(level) + " " +
                          std::string(text, size));
  }

  static const devrt_call_site_v0* CallSite(void*) { return &t_site; }

  static const void* GetExtension(void* host, const char* name) {
    const auto& extensions = static_cast<FakeHost*>(host)->extensions_;
    const auto found = extensions.find(name);
    return found == extensions.end() ? nullptr : found->second;
  }
};

FakeHost::FakeHost() : table_{} {
  table_.struct_size = sizeof(table_);
  table_.abi_minor = DEVRT_ABI_MINOR;
  table_.host = this;
  table_.error_create = Calls::ErrorCreate;
  table_.error_set_origin = Calls::ErrorSetOrigin;
  table_.error_code = Calls::ErrorCode;
  table_.error_text = Calls::ErrorText;
  table_.error_destroy = Calls::ErrorDestroy;
  table_.log_min_level = Calls::LogMinLevel;
  table_.log = Calls::Log;
  table_.call_site = Calls::CallSite;
  table_.get_extension = Calls::GetExtension;
}

std::vector<std::string> FakeHost::logs() const {
  const std::lock_guard lock(mutex_);
  return logs_;
}

void FakeHost::set_extension(const std::string& name, const void* extension) {
  extensions_[name] = extension;
}

ScopedCallSite::ScopedCallSite(const char* file, int32_t line,
                               const char* label)
    : previous_(t_site) {
  t_site = {file, line, 0, label};
}

ScopedCallSite::~ScopedCallSite() { t_site = previous_; }

OwnedStatus::~OwnedStatus() { delete Error(status_); }

OwnedStatus::OwnedStatus(OwnedStatus&& other) noexcept
    : status_(std::exchange(other.status_, nullptr)) {}

OwnedStatus& OwnedStatus::operator=(OwnedStatus&& other) noexcept {
  std::swap(status_, other.status_);
  return *this;
}

devrt_code OwnedStatus::code() const {
  return ok() ? DEVRT_OK : Error(status_)->code;
}

std::string OwnedStatus::text() const {
  return ok() ? std::string() : Error(status_)->text;
}

int64_t OwnedStatus::native_code() const {
  return ok() ? 0 : Error(status_)->native_code;
}

uint32_t OwnedStatus::flags() const { return ok() ? 0 : Error(status_)->flags; }

int32_t OwnedStatus::device() const {
  return ok() ? -1 : Error(status_)->device;
}

std::string OwnedStatus::native_name() const {
  return ok() ? std::string() : Error(status_)->native_name;
}

std::string OwnedStatus::entry_point() const {
  return ok() ? std::string() : Error(status_)->entry_point;
}

}  // namespace devrt::test
