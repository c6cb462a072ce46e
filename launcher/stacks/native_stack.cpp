#include "launcher/stacks/native_stack.hpp"

#include "launcher/stacks/readable_names.hpp"
#include "launcher/stacks/symbol_names.hpp"
#include "rendezvous/base/text.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace ddprun {

namespace {

/// A file opened for reading; empty if it cannot be opened.
class File {
 public:
  explicit File(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat status {};
    if (::fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode))
      bytes_ = static_cast<std::uint64_t>(status.st_size);
  }

  std::string read(std::uint64_t offset, std::uint64_t size) const {
    if (offset >= bytes_) return {};
    std::string text(std::min(size, bytes_ - offset), '\0');
    const auto count = ::pread(fd_.get(), text.data(), text.size(), static_cast<off_t>(offset));
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
  }

 private:
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

/// Removes a hexadecimal number and the letter after it from the front of the text.
bool take_number(std::string_view& text, std::uint64_t& number, char letter) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  const auto digits = static_cast<std::size_t>(parsed.ptr - text.data());
  if (parsed.ec != std::errc() || digits >= text.size() || text[digits] != letter) return false;
  text.remove_prefix(digits + 1);
  return true;
}

/// A frame and its resolved location.
struct Frame {
  const Mapping* mapping = nullptr;
  std::uint64_t address = 0;
  CodeLocation place;
};

Frame make_frame(const control::ThreadStack& stack, std::uint32_t index,
                 const std::vector<Mapping>& mappings) {
  Frame frame{.address = stack.addresses[index]};
  // A call that never returns is the last instruction of its function; the address before the
  // return address is always inside.
  const auto inside = frame.address - (index == 0 ? 0 : 1);
  const auto found = std::find_if(mappings.begin(), mappings.end(), [&](const Mapping& mapping) {
    return mapping.begin <= inside && inside < mapping.end;
  });
  if (found == mappings.end()) return frame;
  frame.mapping = &*found;
  frame.place.file_offset = inside - found->begin + found->file_offset;
  return frame;
}

// Programs with PyTorch have 200 libraries, few of which are on stacks.
constexpr std::size_t kFilesReadMax = 256;

/// Reads each file once, independent of the number of its frames.
void name_frames(std::vector<Frame>& frames) {
  std::map<std::string, std::vector<Frame*>> by_file;
  for (auto& frame : frames) {
    if (frame.mapping != nullptr) by_file[frame.mapping->file].push_back(&frame);
  }
  std::size_t files = 0;
  for (const auto& [file, in_file] : by_file) {
    if (++files > kFilesReadMax) break;
    const File source(file);
    std::vector<CodeLocation> places;
    for (const Frame* frame : in_file) places.push_back(frame->place);
    name_functions([&](auto offset, auto size) { return source.read(offset, size); }, places);
    for (std::size_t i = 0; i < places.size(); ++i) in_file[i]->place = places[i];
  }
}

std::string hexadecimal(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::map<std::string, std::string> readable_names_of(const std::vector<Frame>& frames) {
  std::set<std::string> symbols;
  for (const auto& frame : frames) symbols.insert(frame.place.function);
  return readable_names(symbols);
}

std::string describe(const Frame& frame, std::uint32_t index,
                     const std::map<std::string, std::string>& readable) {
  const std::string head = "  #" + std::to_string(index) + (index < 10 ? "  " : " ");
  if (frame.mapping == nullptr) return head + hexadecimal(frame.address) + "\n";
  const auto& place = frame.place;
  const auto function = place.function.empty()
                            ? "?? + " + hexadecimal(place.file_offset)
                            : readable.at(place.function) + " + " + hexadecimal(place.distance);
  return head + function + " in " + frame.mapping->file.substr(frame.mapping->file.rfind('/') + 1) +
         "\n";
}

std::vector<Frame> make_frames(const std::vector<control::ThreadStack>& stacks,
                               const std::vector<Mapping>& mappings) {
  std::vector<Frame> frames;
  for (const auto& stack : stacks) {
    for (std::uint32_t i = 0; i < stack.frames; ++i)
      frames.push_back(make_frame(stack, i, mappings));
  }
  return frames;
}

/// `frames`: those of all stacks, concatenated.
std::string describe(const std::vector<control::ThreadStack>& stacks,
                     const std::map<int, std::string>& names, const std::vector<Frame>& frames,
                     const std::map<std::string, std::string>& readable) {
  std::string text;
  auto frame = frames.begin();
  for (const auto& stack : stacks) {
    if (!text.empty()) text += "\n";
    const auto name = names.find(stack.thread_id);
    text += "Thread " + std::to_string(stack.thread_id) +
            (name == names.end() ? "" : " (" + name->second + ")") + ":\n";
    for (std::uint32_t i = 0; i < stack.frames; ++i) text += describe(*frame++, i, readable);
  }
  return text;
}

}  // namespace

std::vector<Mapping> parse_mappings(std::string_view maps_text) {
  std::vector<Mapping> mappings;
  for (const auto& line : split(maps_text, '\n')) {
    std::string_view rest = line;
    Mapping mapping;
    // begin-end permissions offset device inode      file
    if (!take_number(rest, mapping.begin, '-') || !take_number(rest, mapping.end, ' ')) continue;
    rest.remove_prefix(std::min(rest.find(' '), rest.size() - 1) + 1);
    if (!take_number(rest, mapping.file_offset, ' ')) continue;
    const auto name = rest.find_first_of("/[");
    if (name == std::string_view::npos) continue;
    mapping.file = rest.substr(name);
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

std::string describe_stacks(const std::vector<control::ThreadStack>& stacks,
                            const std::map<int, std::string>& names,
                            const std::vector<Mapping>& mappings) {
  return describe(stacks, names, make_frames(stacks, mappings), {});
}

std::string describe_named_stacks(const std::vector<control::ThreadStack>& stacks,
                                  const std::map<int, std::string>& names,
                                  const std::vector<Mapping>& mappings) {
  auto frames = make_frames(stacks, mappings);
  name_frames(frames);
  return describe(stacks, names, frames, readable_names_of(frames));
}

}  // namespace ddprun
