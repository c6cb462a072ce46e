#include "launcher/stacks/symbol_names.hpp"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

namespace {

// Three times the largest tables known, those of PyTorch's CUDA library; bounds the memory.
constexpr std::uint64_t kTableBytesMax = 256ULL << 20;

template <typename T>
std::optional<T> value_at(std::string_view bytes, std::uint64_t index) {
  if (index >= bytes.size() / sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::string_view text_at(std::string_view strings, std::uint64_t offset) {
  const auto rest = strings.substr(std::min<std::uint64_t>(offset, strings.size()));
  return rest.substr(0, rest.find('\0'));
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

/// A place as symbols know it.
struct Wanted {
  std::uint64_t address;
  CodePlace* place;
};

std::vector<Wanted> addresses_of(std::string_view segments, std::span<CodePlace> places) {
  std::vector<Wanted> wanted;
  for (unsigned i = 0; const auto segment = value_at<Elf64_Phdr>(segments, i); ++i) {
    if (segment->p_type != PT_LOAD) continue;
    for (auto& place : places) {
      const auto inside = place.file_offset - segment->p_offset;
      if (place.file_offset >= segment->p_offset && inside < segment->p_filesz)
        wanted.push_back({.address = segment->p_vaddr + inside, .place = &place});
    }
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const Wanted& a, const Wanted& b) { return a.address < b.address; });
  return wanted;
}

/// One pass over the table, which may hold a million symbols; the places are few.
void name_from_table(std::string_view table, std::string_view strings,
                     std::span<const Wanted> wanted) {
  const auto is_before = [](const Wanted& a, std::uint64_t address) { return a.address < address; };
  for (std::uint64_t i = 0; const auto symbol = value_at<Elf64_Sym>(table, i); ++i) {
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
    auto found = std::lower_bound(wanted.begin(), wanted.end(), symbol->st_value, is_before);
    for (; found != wanted.end() && found->address - symbol->st_value < symbol->st_size; ++found) {
      if (!found->place->function.empty()) continue;
      found->place->function = text_at(strings, symbol->st_name).substr(0, kSymbolBytesMax);
      found->place->distance = found->address - symbol->st_value;
    }
  }
}

/// A file has at most one table of each kind; whoever claims more is damaged.
std::optional<Elf64_Shdr> first_of_kind(std::string_view sections, Elf64_Word kind) {
  for (unsigned i = 0; const auto section = value_at<Elf64_Shdr>(sections, i); ++i) {
    if (section->sh_type == kind) return section;
  }
  return std::nullopt;
}

bool are_all_named(std::span<const Wanted> wanted) {
  return std::none_of(wanted.begin(), wanted.end(),
                      [](const Wanted& each) { return each.place->function.empty(); });
}

std::string read_section(const ReadAt& read, const Elf64_Shdr& section) {
  return read(section.sh_offset, std::min<std::uint64_t>(section.sh_size, kTableBytesMax));
}

}  // namespace

void name_functions(const ReadAt& read, std::span<CodePlace> places) {
  const auto header = read_header(read);
  if (!header) return;
  const auto segments = read(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
  const auto sections = read(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr));
  const auto wanted = addresses_of(segments, places);
  // Stripped files lack the full table; then what they export must do.
  for (const Elf64_Word kind : {SHT_SYMTAB, SHT_DYNSYM}) {
    if (are_all_named(wanted)) return;
    const auto section = first_of_kind(sections, kind);
    if (!section) continue;
    const auto strings = value_at<Elf64_Shdr>(sections, section->sh_link);
    if (!strings) continue;
    name_from_table(read_section(read, *section), read_section(read, *strings), wanted);
  }
}

}  // namespace ddprun
