// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/layers.h"

#include <dirent.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "devrt/runtime/status.h"
#include "runtime/common/device_name.h"
#include "runtime/common/text.h"
#include "runtime/loader/elf_manifest.h"
#include "runtime/loader/library_kind.h"
#include "runtime/loader/open_watch.h"
#include "runtime/plugins/host_table.h"
#include "runtime/registry/open.h"

namespace devrt::internal {
namespace {

using Result = LoadAttempt::Result;

constexpr char kLayerPrefix[] = "libdevrt_layer_";
constexpr char kLayerSuffix[] = ".so";

// The directories that may hold the file of a layer, in order.
std::vector<std::string> Directories(const Environment& environment) {
  std::vector<std::string> directories =
      absl::StrSplit(environment.layer_path, ':', absl::SkipEmpty());
  if (!environment.default_directory.empty()) {
    directories.push_back(
        absl::StrCat(environment.default_directory, "/layers"));
  }
  return directories;
}

// Collects the names of layers whose files lie in `directories`.
void AddInstalled(const std::vector<std::string>& directories,
                  std::set<std::string>* names) {
  for (const std::string& directory : directories) {
    DIR* const stream = opendir(directory.c_str());
    if (stream == nullptr) continue;
    while (const dirent* entry = readdir(stream)) {
      absl::string_view name = entry->d_name;
      if (absl::ConsumePrefix(&name, kLayerPrefix) &&
          absl::ConsumeSuffix(&name, kLayerSuffix) &&
          IsBackendName(ToStd(name))) {
        names->emplace(name);
      }
    }
    closedir(stream);
  }
}

}  // namespace

std::vector<std::string> SplitLayers(const std::string& text) {
  std::vector<std::string> names;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (!part.empty()) names.emplace_back(part);
  }
  return names;
}

LayerSet::Entry* LayerSet::FindEntry(const std::string& name) {
  for (const std::unique_ptr<Entry>& entry : entries_) {
    if (entry->layer.name == name) return entry.get();
  }
  return nullptr;
}

absl::Status LayerSet::Register(const devrt_manifest_v0* manifest,
                                devrt_layer_open_fn_v0 open) {
  if (manifest == nullptr || open == nullptr) {
    return absl::InvalidArgumentError(
        "RegisterLayer needs a manifest and an open function");
  }
  DEVRT_RETURN_IF_ERROR(
      WithPrefix("RegisterLayer: ", CheckManifest(*manifest, kLayerLibrary)));
  if (FindEntry(manifest->backend) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("RegisterLayer: there is a layer ",
                     Quoted(manifest->backend), " already"));
  }
  auto entry = std::make_unique<Entry>();
  entry->layer.name = manifest->backend;
  entry->manifest = *manifest;
  entry->open = open;
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

// Opens a layer once; later calls return the layer.
absl::StatusOr<const Layer*> LayerSet::Open(Entry* entry) {
  Layer& layer = entry->layer;
  if (entry->opened) return &layer;
  any_opened_ = true;
  const Opening opening(
      "opening", kLayerLibrary.noun,
      entry->canonical.empty() ? layer.name : entry->canonical);
  devrt_layer_v0 given = {};
  given.struct_size = sizeof given;
  DEVRT_RETURN_IF_ERROR(
      WithPrefix(absl::StrCat("layer ", Quoted(layer.name), ": "),
                 CallPlugin(layer.name, "open",
                            [&] { return entry->open(HostTable(), &given); })));
  if (given.attach == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layer ", Quoted(layer.name), ": its open gave no attach function"));
  }
  layer.table = given;
  entry->opened = true;
  return &layer;
}

absl::StatusOr<LayerSet::Entry*> LayerSet::LoadFile(
    const std::string& path, std::vector<Finding>* findings) {
  Finding finding = Examine(kSourceLayers, path, kLayerLibrary);
  LoadAttempt& attempt = finding.attempt;
  if (attempt.result == Result::kFound) {
    for (const std::unique_ptr<Entry>& entry : entries_) {
      if (entry->canonical == finding.canonical) return entry.get();
    }
    if (FindEntry(attempt.backend) != nullptr) {
      attempt.result = Result::kShadowed;
      attempt.status = absl::AlreadyExistsError(
          absl::StrCat(path, ": there is another layer ",
                       Quoted(attempt.backend), " already"));
    }
  }
  if (attempt.status.ok()) {
    absl::StatusOr<void*> open =
        LoadLibrary(path, finding.manifest, kLayerLibrary);
    attempt.status = open.status();
    attempt.result = open.ok() ? Result::kLoaded : Result::kRefused;
    if (open.ok()) {
      auto entry = std::make_unique<Entry>();
      entry->layer.name = finding.manifest.backend;
      entry->manifest = finding.manifest;
      entry->open = reinterpret_cast<devrt_layer_open_fn_v0>(*open);
      entry->canonical = finding.canonical;
      entries_.push_back(std::move(entry));
    }
  }
  const absl::Status status = attempt.status;
  findings->push_back(std::move(finding));
  if (!status.ok()) return status;
  return entries_.back().get();
}

absl::StatusOr<LayerSet::Entry*> LayerSet::FindFile(
    const std::string& name, const Environment& environment,
    std::vector<Finding>* findings) {
  const std::vector<std::string> directories = Directories(environment);
  for (const std::string& directory : directories) {
    const std::string path =
        absl::StrCat(directory, "/", kLayerPrefix, name, kLayerSuffix);
    if (!FileExists(path)) continue;
    DEVRT_ASSIGN_OR_RETURN(Entry* const entry, LoadFile(path, findings));
    if (entry->layer.name == name) return entry;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": it is layer ", Quoted(entry->layer.name)));
  }
  std::set<std::string> known;
  for (const auto& entry : entries_) known.insert(entry->layer.name);
  AddInstalled(directories, &known);
  if (known.empty()) known.insert("none");
  return absl::NotFoundError(absl::StrCat(
      "no layer ", Quoted(name),
      " was found; known layers: ", absl::StrJoin(known, ", "), "; searched: ",
      directories.empty() ? "nothing" : absl::StrJoin(directories, ", "),
      "; expected there: ", kLayerPrefix, name, kLayerSuffix));
}

absl::StatusOr<const Layer*> LayerSet::Find(const std::string& name,
                                            const Environment& environment,
                                            std::vector<Finding>* findings) {
  if (name.empty())
    return absl::InvalidArgumentError("a layer's name is empty");
  if (name[0] == '/') {
    DEVRT_ASSIGN_OR_RETURN(Entry* const entry, LoadFile(name, findings));
    return Open(entry);
  }
  if (!IsBackendName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(name),
        " is not a layer's name; expected a name such as \"trace\", or an "
        "absolute path"));
  }
  if (Entry* const entry = FindEntry(name)) return Open(entry);
  DEVRT_ASSIGN_OR_RETURN(Entry* const entry,
                         FindFile(name, environment, findings));
  return Open(entry);
}

absl::StatusOr<LayerSet::Choice> LayerSet::Resolve(
    const std::vector<std::string>& names, const Environment& environment,
    std::vector<Finding>* findings) {
  Choice choice;
  for (const std::string& name : names) {
    DEVRT_ASSIGN_OR_RETURN(const Layer* const layer,
                           Find(name, environment, findings));
    if (std::find(choice.begin(), choice.end(), layer) != choice.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", Quoted(layer->name), " is named twice"));
    }
    choice.push_back(layer);
  }
  return choice;
}

absl::Status LayerSet::Choose(const std::vector<std::string>& names,
                              const Environment& environment,
                              std::vector<Finding>* findings) {
  absl::StatusOr<Choice> choice = Resolve(names, environment, findings);
  if (!choice.ok()) return WithPrefix("SetLayers: ", choice.status());
  choice_ = std::move(choice);
  return absl::OkStatus();
}

const absl::StatusOr<LayerSet::Choice>& LayerSet::Chosen(
    const Environment& environment, std::vector<Finding>* findings) {
  if (choice_.has_value()) return *choice_;
  choice_ = Resolve(SplitLayers(environment.layers), environment, findings);
  if (!choice_->ok()) {
    choice_ = WithPrefix(
        absl::StrCat("DEVRT_LAYERS=", Quoted(environment.layers), ": "),
        choice_->status());
  }
  return *choice_;
}

}  // namespace devrt::internal
