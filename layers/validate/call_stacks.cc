// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/call_stacks.h"

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

namespace devrt::race {
namespace {

bool BeginsWith(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

// Returns true for what calls the function of a std::thread.
bool StartsThreads(const CodePlace& frame) {
  for (const std::string_view begin : {"std::", "__gthread_", "__pthread_"}) {
    if (BeginsWith(frame.function, begin)) return true;
  }
  return false;
}

// The library, its backends and its layers.
bool IsOfDevrt(const void* code) {
  return BeginsWith(ModuleOf(code).name, "libdevrt");
}

// What starts the program, its threads and its host functions.
bool IsOfStart(const void* code) {
  const std::string_view name = ModuleOf(code).name;
  for (const std::string_view begin :
       {"libc.so", "libstdc++.so", "ld-linux", "libdevrt"}) {
    if (BeginsWith(name, begin)) return true;
  }
  return false;
}

// Takes the start of the program or of the thread off the outer end.
void DropStart(std::vector<const void*>* codes) {
  const size_t count = codes->size();
  // The outermost function is the program's own: "_start".
  if (count > 1 && IsOfStart((*codes)[count - 2])) codes->pop_back();
  while (!codes->empty() && IsOfStart(codes->back())) codes->pop_back();
}

std::string_view FileOf(std::string_view site) {
  return site.substr(0, site.rfind(':'));
}

// Returns true if a site is `name`, the frame's file or its file and line.  The
// site has the folder too where the compiler got the whole path, as from a
// unity build of Meson: "/home/me/build/../main.cc".
bool IsNamed(const CodePlace& frame, const std::string& name,
             std::string_view site) {
  return name == site || frame.folder + name == site;
}

// The program's call has the site's line, or at least its file: a call of
// several lines has several line numbers.
std::vector<CodePlace>::iterator FindCall(std::vector<CodePlace>* frames,
                                          const std::string& site) {
  if (site.empty()) return frames->begin();
  const auto call =
      std::find_if(frames->begin(), frames->end(), [&](const CodePlace& frame) {
        return IsNamed(frame, frame.Text(), site);
      });
  if (call != frames->end()) return call;
  return std::find_if(frames->begin(), frames->end(),
                      [&](const CodePlace& frame) {
                        return IsNamed(frame, frame.file, FileOf(site));
                      });
}

}  // namespace

CallStacks::CallStacks(const devrt_host_v0* host, CodePlaces* places,
                       size_t most)
    : host_(host), places_(places), most_(most) {
  if (host == nullptr || host->get_extension == nullptr) return;
  program_ = static_cast<const devrt_program_stack_v0*>(
      host->get_extension(host->host, DEVRT_PROGRAM_STACK_EXTENSION));
}

void CallStacks::Want(bool wanted) {
  if (wanted) {
    places_->Load();
    void* address = nullptr;
    backtrace(&address, 1);  // the first one loads a library
  }
  if (program_ != nullptr) program_->want(host_->host, wanted ? 1 : 0);
}

void CallStacks::AddAddresses(Words* words) {
  std::array<void*, kDeepest> addresses;
  const int count = backtrace(addresses.data(), kDeepest);
  words->push_back(static_cast<uint64_t>(count));
  for (int i = 0; i < count; ++i) {
    words->push_back(reinterpret_cast<uint64_t>(addresses[i]));
  }
}

void CallStacks::AddProgramFrames(Words* words) const {
  const devrt_program_frames_v0* const noted =
      program_ == nullptr ? nullptr : program_->frames(host_->host);
  if (noted == nullptr) return;
  for (uint32_t i = 0; i < noted->count; ++i) {
    const devrt_program_frame_v0& frame = noted->frames[i];
    words->push_back(reinterpret_cast<uint64_t>(frame.file));
    words->push_back(reinterpret_cast<uint64_t>(frame.function));
    words->push_back(static_cast<uint64_t>(frame.line));
  }
  words->push_back(noted->left_out);
}

uint32_t CallStacks::Take() {
  Words words;
  words.reserve(kDeepest);
  AddAddresses(&words);
  AddProgramFrames(&words);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = numbers_.find(words);
  if (known != numbers_.end()) return known->second;
  if (stacks_.size() == most_) return 0;
  words.shrink_to_fit();
  const auto number = static_cast<uint32_t>(stacks_.size() + 1);
  stacks_.push_back(&numbers_.emplace(std::move(words), number).first->first);
  return number;
}

bool CallStacks::IsBusy() const {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || places_->IsBusy();
}

bool CallStacks::IsInterpreter(const void* code) const {
  if (program_ == nullptr) return false;
  const void* const begin = ModuleOf(code).begin;
  const void* known = program_->interpreter(host_->host, 0);
  for (uint32_t i = 1; known != nullptr; ++i) {
    if (ModuleOf(known).begin == begin) return true;
    known = program_->interpreter(host_->host, i);
  }
  return false;
}

// A program may contain devrt.  Then names tell the two apart.
bool CallStacks::IsLinkedIn(const void* code, std::vector<CodePlace> places,
                            const std::string& site) const {
  if (host_ == nullptr || host_->call_site == nullptr || places.empty() ||
      !BeginsWith(places.back().function, "devrt::")) {
    return false;
  }
  const void* const devrt = reinterpret_cast<const void*>(host_->call_site);
  if (ModuleOf(code).begin != ModuleOf(devrt).begin) return false;
  return site.empty() || FindCall(&places, site) == places.end();
}

std::vector<CodePlace> CallStacks::NativeFrames(const Words& words,
                                                const std::string& site,
                                                bool* meets_interpreter) const {
  std::vector<const void*> codes;
  bool has_start = words[0] < kDeepest;
  for (uint64_t i = 1; i <= words[0]; ++i) {
    // The call is before the address to which it returns.
    const void* const code = reinterpret_cast<const void*>(words[i] - 1);
    if (codes.empty() && IsOfDevrt(code)) continue;
    if (IsInterpreter(code)) {
      has_start = false;
      *meets_interpreter = true;
      break;
    }
    codes.push_back(code);
  }
  if (has_start) DropStart(&codes);
  std::vector<CodePlace> frames;
  for (const void* const code : codes) {
    std::vector<CodePlace> places = places_->At(code);
    if (frames.empty() && IsLinkedIn(code, places, site)) continue;
    // Its module was unloaded, or it was made at run time.
    if (places.empty()) places.push_back({"", "", 0, "unknown code"});
    std::move(places.begin(), places.end(), std::back_inserter(frames));
  }
  const auto call = FindCall(&frames, site);
  if (call != frames.end()) frames.erase(frames.begin(), call);
  while (!frames.empty() && StartsThreads(frames.back())) frames.pop_back();
  return frames;
}

CallStack CallStacks::TextOf(uint32_t number, const std::string& site) {
  const Words* found = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number == 0 || number > stacks_.size()) return {};
    found = stacks_[number - 1];
  }
  const Words& words = *found;
  CallStack stack;
  bool meets_interpreter = false;
  stack.frames = NativeFrames(words, site, &meets_interpreter);
  size_t at = words[0] + 1;
  for (; at + 3 <= words.size(); at += 3) {
    stack.frames.push_back({reinterpret_cast<const char*>(words[at + 1]),
                            reinterpret_cast<const char*>(words[at]),
                            static_cast<int>(words[at + 2]), ""});
  }
  if (at < words.size()) {
    stack.left_out = words[at];
  } else {
    stack.is_cut =
        words[0] == kDeepest || (meets_interpreter && !stack.frames.empty());
  }
  if (stack.frames.size() > CallStack::kMostFrames) {
    stack.left_out += stack.frames.size() - CallStack::kMostFrames;
    stack.frames.resize(CallStack::kMostFrames);
  }
  return stack;
}

}  // namespace devrt::race
