#include "launcher/stacks/symbol_names.hpp"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

namespace {

// Three times the largest known tables, those of PyTorch's CUDA library; bounds the time.
constexpr std::uint64_t kTableBytesMax = 256ULL << 20;
// Whole symbols, read at once; bounds the memory.
constexpr std::uint64_t kPartBytes = 65'536 * sizeof(Elf64_Sym);
// Programs have about ten.
constexpr unsigned kSegmentsMax = 1024;

template <typename T>
std::optional<T> value_at(std::string_view bytes, std::uint64_t index) {
  if (index >= bytes.size() / sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::optional<Elf64_Ehdr> read_header(const ReadAt& read) {
  const auto header = value_at<Elf64_Ehdr>(read(0, sizeof(Elf64_Ehdr)), 0);
  constexpr auto kByteOrder =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != kByteOrder ||
      header->e_phentsize != sizeof(Elf64_Phdr) || header->e_shentsize != sizeof(Elf64_Shdr))
    return std::nullopt;
  return header;
}

/// Places whose name is not known yet, by their addresses as used in symbols.
using Unnamed = std::multimap<std::uint64_t, CodeLocation*>;

std::optional<std::uint64_t> address_of(std::string_view segments, std::uint64_t file_offset) {
  for (unsigned i = 0; i < kSegmentsMax; ++i) {
    const auto segment = value_at<Elf64_Phdr>(segments, i);
    if (!segment) break;
    const auto inside = file_offset - segment->p_offset;
    if (segment->p_type == PT_LOAD && file_offset >= segment->p_offset &&
        inside < segment->p_filesz)
      return segment->p_vaddr + inside;
  }
  return std::nullopt;
}

Unnamed addresses_of(std::string_view segments, std::span<CodeLocation> places) {
  Unnamed unnamed;
  for (auto& place : places) {
    if (const auto address = address_of(segments, place.file_offset))
      unnamed.emplace(*address, &place);
  }
  return unnamed;
}

/// A place, and the offset of its name in the string table.
struct Found {
  CodeLocation* place;
  std::uint64_t name;
};

/// Moves the places that this symbol covers from `unnamed` to `found`.
void find_by_symbol(const Elf64_Sym& symbol, Unnamed& unnamed, std::vector<Found>& found) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) return;
  auto next = unnamed.lower_bound(symbol.st_value);
  while (next != unnamed.end() && next->first - symbol.st_value < symbol.st_size) {
    next->second->distance = next->first - symbol.st_value;
    found.push_back({.place = next->second, .name = symbol.st_name});
    next = unnamed.erase(next);
  }
}

/// Makes one pass over the table, which may have a million symbols; there are few places.
std::vector<Found> find_in_table(const ReadAt& read, const Elf64_Shdr& table, Unnamed& unnamed) {
  std::vector<Found> found;
  const auto bytes = std::min<std::uint64_t>(table.sh_size, kTableBytesMax);
  for (std::uint64_t offset = 0; offset < bytes && !unnamed.empty(); offset += kPartBytes) {
    const auto part = read(table.sh_offset + offset, std::min(kPartBytes, bytes - offset));
    for (std::uint64_t i = 0; const auto symbol = value_at<Elf64_Sym>(part, i); ++i)
      find_by_symbol(*symbol, unnamed, found);
    if (part.size() < kPartBytes) break;
  }
  return found;
}

std::string read_name(const ReadAt& read, const Elf64_Shdr& strings, std::uint64_t name) {
  if (name >= strings.sh_size) return {};
  const auto text = read(strings.sh_offset + name,
                         std::min<std::uint64_t>(kSymbolBytesMax, strings.sh_size - name));
  return text.substr(0, text.find('\0'));
}

/// A file has at most one table of each kind; files with more are damaged.
std::optional<Elf64_Shdr> first_of_kind(std::string_view sections, Elf64_Word kind) {
  for (unsigned i = 0; const auto section = value_at<Elf64_Shdr>(sections, i); ++i) {
    if (section->sh_type == kind) return section;
  }
  return std::nullopt;
}

}  // namespace

void name_functions(const ReadAt& read, std::span<CodeLocation> places) {
  const auto header = read_header(read);
  if (!header) return;
  const auto segments = read(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
  const auto sections = read(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr));
  auto unnamed = addresses_of(segments, places);
  // Stripped files lack the full table; use the dynamic symbols instead.
  for (const Elf64_Word kind : {SHT_SYMTAB, SHT_DYNSYM}) {
    if (unnamed.empty()) return;
    const auto section = first_of_kind(sections, kind);
    if (!section) continue;
    const auto strings = value_at<Elf64_Shdr>(sections, section->sh_link);
    if (!strings) continue;
    for (const auto& each : find_in_table(read, *section, unnamed))
      each.place->function = read_name(read, *strings, each.name);
  }
}

}  // namespace ddprun
