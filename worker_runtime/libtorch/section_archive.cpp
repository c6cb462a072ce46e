#include "worker_runtime/libtorch/section_archive.hpp"

#include <ddprun/error.hpp>

#include <utility>

namespace ddprun::torch {

using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

void refuse_section(const std::string& section, const std::string& reason) {
  throw Error(Errc::usage, "checkpoint section \"" + section + "\" " + reason);
}

void put_archive(Checkpoint& checkpoint, const std::string& section,
                 const std::function<void(OutputArchive&)>& write) {
  std::vector<std::byte> bytes;
  convert_errors(section, "cannot be written", [&] {
    OutputArchive archive;
    write(archive);
    archive.save_to([&](const void* data, std::size_t size) {
      const auto* const first = static_cast<const std::byte*>(data);
      bytes.insert(bytes.end(), first, first + size);
      return size;
    });
  });
  checkpoint.sections[section] = std::move(bytes);
}

InputArchive get_archive(const Checkpoint& checkpoint, const std::string& section) {
  const auto found = checkpoint.sections.find(section);
  if (found == checkpoint.sections.end()) refuse_section(section, "is missing");
  const auto& bytes = found->second;
  return convert_errors(section, "is not LibTorch's", [&] {
    InputArchive archive;
    archive.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return archive;
  });
}

std::vector<NamedValue> values_of(InputArchive& archive) {
  std::vector<NamedValue> values;
  for (const auto& key : archive.keys()) {
    InputArchive nested;
    if (archive.try_read(key, nested)) {
      for (auto& [name, value] : values_of(nested))
        values.push_back({key + "." + name, std::move(value)});
    } else {
      c10::IValue value;
      archive.read(key, value);
      values.push_back({key, std::move(value)});
    }
  }
  return values;
}

}  // namespace ddprun::torch
