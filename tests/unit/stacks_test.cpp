// The choice of a capture method, and the parsing of its output.
#include "launcher/stacks/gdb_arguments.hpp"
#include "launcher/stacks/native_stack.hpp"
#include "launcher/stacks/python_answer.hpp"
#include "launcher/stacks/readable_names.hpp"
#include "launcher/stacks/stack_means.hpp"
#include "launcher/stacks/symbol_names.hpp"
#include "launcher/stacks/symbol_reader.hpp"
#include "launcher/stacks/tool_output.hpp"
#include "rendezvous/control/flight_recorder.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

namespace stacks_test {

using namespace ddprun;

namespace {

using enum StackMeans;
using Means = std::vector<StackMeans>;

/// A function of this program with an exported name and a known first byte.
__attribute__((noinline)) int named_function(int number) {
  return number * 3 + 1;
}

std::string read_own_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A symbol of 250 bytes for a name of 570 MB: each argument is a pair of the one before it.
std::string growing_symbol() {
  std::string symbol = "_Z1f1AIiiE";
  for (const char digit : std::string_view("0123456789ABCDEFGHIJKLMN")) {
    const std::string last = {'S', digit, '_'};
    symbol += "S_I" + last + last + "E";
  }
  return symbol;
}

ReadAt reader_of(const std::string& bytes) {
  return [&bytes](std::uint64_t offset, std::uint64_t size) {
    return offset < bytes.size() ? bytes.substr(offset, size) : std::string();
  };
}

std::vector<Mapping> own_mappings() {
  std::ifstream file("/proc/self/maps");
  std::stringstream text;
  text << file.rdbuf();
  return parse_mappings(text.str());
}

std::uint64_t address_of_named_function() {
  int (*const function)(int) = named_function;
  return reinterpret_cast<std::uint64_t>(function);
}

}  // namespace

TEST_SUITE("stacks") {
  TEST_CASE("stacks: the methods follow from worker and permissions and tools") {
    struct Row {
      const char* what;
      StackFacts facts;
      Means means;
    };
    const Row rows[] = {
        {"a shell without tools", {}, {kernel}},
        {"a native program", {.has_gdb = true}, {gdb, kernel}},
        {"py-spy knows Python only", {.has_py_spy = true}, {kernel}},
        {"the runtime needs no tool", {.has_runtime = true}, {runtime, kernel}},
        {"the runtime is faster than gdb",
         {.has_runtime = true, .has_gdb = true},
         {runtime, gdb, kernel}},
        {"Python that goes on",
         {.is_python = true, .catches_abort = true, .has_py_spy = true, .has_gdb = true},
         {py_spy, python_by_gdb, gdb, kernel}},
        {"Python that goes on is never ended for its stack",
         {.is_python = true, .catches_abort = true},
         {kernel}},
        {"only quick methods of Python",
         {.is_python = true,
          .has_runtime = true,
          .has_py_spy = true,
          .has_gdb = true,
          .is_quick = true},
         {runtime, py_spy}},
        {"the thread of a preloaded worker is as quick and needs no permission",
         {.is_python = true, .has_thread = true, .has_py_spy = true, .is_quick = true},
         {python_thread, py_spy}},
        {"the thread of a worker that now runs another program is not asked",
         {.has_thread = true},
         {kernel}},
        {"no method is quick", {.is_python = true, .has_gdb = true, .is_quick = true}, {}},
        {"Python that is to be killed",
         {.is_python = true, .catches_abort = true, .may_end = true, .has_gdb = true},
         {python_by_gdb, faulthandler, kernel}},
        {"Python that prints nothing when it is killed",
         {.is_python = true, .may_end = true, .has_gdb = true},
         {python_by_gdb, gdb, kernel}},
        {"Python without faulthandler prints nothing",
         {.is_python = true, .may_end = true},
         {kernel}},
        {"a native program with a handler for SIGABRT has no stack to print",
         {.catches_abort = true, .may_end = true},
         {kernel}},
    };
    for (const auto& row : rows) {
      CAPTURE(row.what);
      CHECK(stack_means_for(row.facts) == row.means);
    }
  }

  TEST_CASE("stacks: native frames suffice for native programs and not for Python") {
    CHECK(is_enough(gdb, {}));
    CHECK(is_enough(runtime, {}));
    CHECK_FALSE(is_enough(gdb, {.is_python = true}));
    CHECK(is_enough(python_thread, {.is_python = true}));
    CHECK(is_enough(py_spy, {.is_python = true}));
    CHECK(is_enough(python_by_gdb, {.is_python = true}));
    CHECK(is_enough(faulthandler, {.is_python = true}));
  }

  TEST_CASE("stacks: text other than stacks is removed from the output of gdb and py-spy") {
    CHECK(stacks_in("[New LWP 12]\n0x00 in pause ()\n\nThread 1 (LWP 12):\n#0  pause ()\n"
                    "#1  main ()\n[Inferior 1 (process 12) detached]\n") ==
          "Thread 1 (LWP 12):\n#0  pause ()\n#1  main ()\n");
    CHECK(stacks_in("Process 7: python\nPython v3.11\n\nThread 7 (idle): \"MainThread\"\n"
                    "    wait (a.py:3)\n") ==
          "Thread 7 (idle): \"MainThread\"\n    wait (a.py:3)\n");
    CHECK(stacks_in("Thread 1 is gone\n").empty());
    CHECK(stacks_in("").empty());
  }

  TEST_CASE("stacks: gdb and faulthandler text around Python frames is removed") {
    CHECK(python_frames_in("[New LWP 12]\n$1 = 0\nFatal Python error: Illegal instruction\n\n"
                           "Thread 0x7f (most recent call first):\n  File \"a.py\", line 3 in f\n\n"
                           "Extension modules: numpy.core (total: 1)\n\n$2 = 0\n[detached]\n") ==
          "Thread 0x7f (most recent call first):\n  File \"a.py\", line 3 in f\n");
    CHECK(python_frames_in("Stack (most recent call first):\n  <no Python frame>\n") ==
          "Stack (most recent call first):\n  <no Python frame>\n");
    CHECK(python_frames_in("$1 = -1\n(null)\n$2 = 0\n").empty());
    CHECK(python_frames_in("").empty());
  }

  TEST_CASE("stacks: the answer of a preloaded worker has stacks and calls of groups") {
    const auto answer = parse_python_answer(
        "group\t1\t2\t3\t0,4\tdefault_pg\n"
        "flight\t1\t0\t1\t900\t700\t16\tall_reduce(4 x float32)\n"
        "flight\t2\t0\t0\t500\t0\t0\tbarrier\n"
        "group\t0\t1\t0\t\t1:mesh\n"
        "stacks\nThread 7 (idle): \"MainThread\"\n    f (a.py:3)\nend\n");
    REQUIRE(answer);
    CHECK(answer->stacks == "Thread 7 (idle): \"MainThread\"\n    f (a.py:3)");
    using std::chrono::nanoseconds;
    const control::GroupFlightRecord world{
        .name = "default_pg",
        .rank = 1,
        .size = 2,
        .members = {0, 4},
        .entered = 3,
        .flights = {{.number = 1,
                     .call = "all_reduce(4 x float32)",
                     .bytes = 16,
                     .state = control::FlightState::done,
                     .entered_ago = nanoseconds(900),
                     .ended_ago = nanoseconds(700)},
                    {.number = 2, .call = "barrier", .entered_ago = nanoseconds(500)}}};
    CHECK(answer->flights.groups ==
          std::vector{world, control::GroupFlightRecord{.name = "1:mesh"}});
  }

  TEST_CASE("stacks: an incomplete answer of a preloaded worker is rejected") {
    for (const char* text :
         {"", "stacks\n", "stacks\nThread 7\n", "end\n", "stacks\nend", "group\t0\t1\t0\t\ta\n"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_python_answer(text));
    }
    CHECK(parse_python_answer("stacks\nend\n"));
  }

  TEST_CASE("stacks: invalid groups and calls in the answer of a preloaded worker are ignored") {
    const std::string call = "\t0\t1\t900\t700\t16\tbarrier\n";
    const std::string valid = "group\t0\t2\t1\t0,1\tvalid\nflight\t0" + call;
    for (const std::string& lines : std::vector<std::string>{
             "flight\t0" + call,                           // of no group
             "group\t2\t2\t0\t0,1\ta\nflight\t0" + call,   // not a member
             "group\t-1\t2\t0\t0,1\ta\nflight\t0" + call,  // negative
             "group\t0\t2\t0\t0,x\ta\nflight\t0" + call,   // not a number
             "group\t0\t2\n" + ("flight\t0" + call),       // too few fields
             "group\t0\t99999999999999999999\t0\t\ta\n",   // too large
             "\n\t\nnonsense\n",
         }) {
      CAPTURE(lines);
      const auto answer = parse_python_answer(lines + valid + "stacks\nend\n");
      REQUIRE(answer);
      REQUIRE(answer->flights.groups.size() == 1);
      CHECK(answer->flights.groups[0].name == "valid");
      CHECK(answer->flights.groups[0].flights.size() == 1);
    }
    const auto ended_before = parse_python_answer(
        valid + "flight\t1\t0\t1\t700\t900\t16\tbarrier\nflight\t-1" + call + "stacks\nend\n");
    REQUIRE(ended_before);
    CHECK(ended_before->flights.groups[0].flights.size() == 1);
  }

  TEST_CASE("stacks: groups and calls in the answer of a preloaded worker are bounded") {
    std::string text;
    for (int group = 0; group < 20; ++group) {
      text += "group\t0\t1\t1\t0\t" + std::string(1000, 'n') + "\n";
      for (int i = 0; i < 300; ++i) text += "flight\t0\t0\t0\t9\t0\t0\tbarrier\n";
    }
    const auto answer = parse_python_answer(text + "stacks\nend\n");
    REQUIRE(answer);
    CHECK(answer->flights.groups.size() == control::kFlightGroupsMax);
    for (const auto& group : answer->flights.groups) {
      CHECK(group.name.size() == control::kGroupNameBytesMax);
      CHECK(group.flights.size() == control::kFlightsMax);
    }
  }

  TEST_CASE("stacks: Python's code is found in libpython or otherwise in the program") {
    const auto code_in = [](std::string_view text) { return python_code(parse_mappings(text)); };
    const std::string program =
        "1000-2000 r-xp 00000000 fe:01 1 /usr/bin/python3.13\n"
        "3000-4000 r--p 00000000 fe:01 1 /usr/bin/python3.13\n";
    CHECK(code_in(program).begin == 0x1000);
    CHECK(code_in(program).end == 0x4000);
    const auto library =
        code_in(program + "7000-8000 r-xp 00000000 fe:01 2 /usr/lib/libpython3.13.so.1.0\n" +
                "9000-a000 r-xp 00000000 fe:01 3 /usr/lib/libc.so.6\n");
    CHECK(library.begin == 0x7000);
    CHECK(library.end == 0x8000);
    CHECK(code_in("9000-a000 r-xp 00000000 fe:01 3 /usr/lib/libc.so.6\n").end == 0);
  }

  TEST_CASE("stacks: a tool's refusal is quoted and otherwise its last line") {
    CHECK(problem_in("warning: process 3 is already traced by process 4\n"
                     "ptrace: Operation not permitted.\nNo threads.\n") ==
          "ptrace: Operation not permitted.");
    const std::string no_symbol = "No symbol \"_Py_DumpTracebackThreads\" in current context.\n";
    CHECK(problem_in(no_symbol + "ddprun: descriptor 7, exported 0, handler 0\n[detached]\n") ==
          "This Python exports no function that prints its frames, and its faulthandler is not "
          "enabled (PYTHONFAULTHANDLER=1), or libraries handle SIGILL and SIGABRT.");
    CHECK(problem_in(no_symbol + "ddprun: descriptor -1, exported 0, handler 0\n") ==
          "The process could not create a memory file for its frames.");
    CHECK(problem_in("No symbol \"memfd_create\" in current context.\n$1 = 0\n") ==
          "No symbol \"memfd_create\" in current context.");
    CHECK(problem_in("Couldn't write extended state status: Bad address.\n$1 = 0\n"
                     "[Inferior 1 (process 9) detached]\n") ==
          "Couldn't write extended state status: Bad address. This gdb is too old for the "
          "processor's registers.");
    CHECK(problem_in("Error: no Python\n  here\n\n") == "here");
    CHECK(problem_in("Caused by:\n    1: unexpected waitpid result\n\nStack backtrace:\n"
                     "   9: main\n") == "1: unexpected waitpid result");
    CHECK(problem_in(" \n") == "it printed nothing");
  }

  TEST_CASE("stacks: parsing a memory map skips anonymous mappings") {
    const auto mappings = parse_mappings(
        "55e0-55f8 r-xp 00001000 fe:01 1234                       /usr/bin/a program\n"
        "7f00-7f10 rw-p 00000000 00:00 0 \n"
        "7ffe00-7ffe20 r-xp 00000000 00:00 0                      [vdso]\n"
        "nonsense\n"
        "12-\n"
        "12-34\n"
        "12-34 r\n");
    REQUIRE(mappings.size() == 2);
    CHECK(mappings[0] ==
          Mapping{
              .begin = 0x55e0, .end = 0x55f8, .file_offset = 0x1000, .file = "/usr/bin/a program"});
    CHECK(mappings[1].file == "[vdso]");
  }

  TEST_CASE("stacks: a function of this program is shown by name") {
    control::ThreadStack stack{.thread_id = 5, .frames = 2};
    stack.addresses[0] = address_of_named_function();
    stack.addresses[1] = 16;  // not a mapped address
    const auto text = describe_named_stacks({stack}, {{5, "main"}}, own_mappings());
    INFO(text);
    CHECK(text.starts_with("Thread 5 (main):\n  #0  "));
    CHECK(text.find("named_function(int) + 0x0 in launcher_unit\n") != std::string::npos);
    CHECK(text.ends_with("  #1  0x10\n"));
    CHECK(named_function(1) == 4);
    const auto unnamed = describe_stacks({stack}, {{5, "main"}}, own_mappings());
    CHECK(unnamed.starts_with("Thread 5 (main):\n  #0  ?? + 0x"));
    CHECK(unnamed.ends_with(" in launcher_unit\n  #1  0x10\n"));
  }

  TEST_CASE("stacks: the symbol reader rejects malformed requests") {
    control::ThreadStack stack{.thread_id = 5, .frames = 1};
    stack.addresses[0] = 16;
    const SymbolRequest request{.stacks = {stack, stack},
                                .names = {{5, "main\n"}, {6, ""}},
                                .memory_map = "12-34 r-xp 0 0 0 /bin/true\n"};
    const auto bytes = encode(request);
    const auto decoded = decode_symbol_request(bytes);
    REQUIRE(decoded);
    CHECK(decoded->stacks.size() == 2);
    CHECK(decoded->stacks[1].addresses[0] == 16);
    CHECK(decoded->names == request.names);
    CHECK(decoded->memory_map == request.memory_map);
    for (std::size_t size = 0; size < bytes.size() - request.memory_map.size(); ++size)
      CHECK_FALSE(decode_symbol_request(std::string_view(bytes).substr(0, size)));
    auto deep = request;
    deep.stacks[0].frames = control::kStackFramesMax + 1;
    CHECK_FALSE(decode_symbol_request(encode(deep)));
    CHECK(named_stacks_in(std::string("Thread 5\0", 9)) == "Thread 5");
    CHECK_FALSE(named_stacks_in("Thread 5"));
    CHECK_FALSE(named_stacks_in(""));
    CHECK(is_symbol_reader(symbol_reader_title()));
    CHECK_FALSE(is_symbol_reader("ddprun"));
  }

  TEST_CASE("stacks: a truncated or damaged symbol file is read safely") {
    const auto program = read_own_program();
    for (const std::size_t size : {0, 3, 16, 63, 64, 65, 500, 5000}) {
      const auto cut = program.substr(0, size);
      std::vector<CodeLocation> places = {{.file_offset = 100}};
      name_functions(reader_of(cut), places);
      CHECK(places[0].function.empty());
    }
    // The first pages hold the header and the segments; the last one the sections.
    const std::size_t last = program.size() - 4096;
    for (std::size_t at = 0; at < 1024; ++at) {
      auto damaged = program.substr(0, 4096) + program.substr(last);
      damaged[at] = static_cast<char>(0xff);
      std::vector<CodeLocation> places = {{.file_offset = 100}};
      name_functions(reader_of(damaged), places);
    }
  }

  TEST_CASE("stacks: an unterminated symbol table is read to its end") {
    std::string file(sizeof(Elf64_Ehdr), '\0');
    const Elf64_Phdr segment{.p_type = PT_LOAD,
                             .p_flags = 0,
                             .p_offset = 0,
                             .p_vaddr = 0x1000,
                             .p_paddr = 0,
                             .p_filesz = 0x100,
                             .p_memsz = 0x100,
                             .p_align = 0};
    const Elf64_Sym symbol{.st_name = 1,
                           .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                           .st_other = 0,
                           .st_shndx = 1,
                           .st_value = 0x1010,
                           .st_size = 0x20};
    const std::string names = std::string("\0name", 5);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, "\177ELF\2\1\1", 7);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_phnum = 1;
    header.e_shnum = 2;
    header.e_phoff = file.size();
    file.append(reinterpret_cast<const char*>(&segment), sizeof segment);
    Elf64_Shdr sections[2] = {};
    sections[0].sh_type = SHT_SYMTAB;
    sections[0].sh_link = 1;
    sections[0].sh_offset = file.size();
    sections[0].sh_size = sizeof symbol;
    file.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
    header.e_shoff = file.size();
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = file.size() + sizeof sections;
    sections[1].sh_size = 1U << 20;  // more than there is
    file.append(reinterpret_cast<const char*>(sections), sizeof sections);
    file += names;
    std::memcpy(file.data(), &header, sizeof header);
    std::vector<CodeLocation> places = {{.file_offset = 0x18}, {.file_offset = 0x30}};
    name_functions(reader_of(file), places);
    CHECK(places[0].function == "name");
    CHECK(places[0].distance == 8);
    CHECK(places[1].function.empty());
    // A name is cut at a limit.
    file += std::string(kSymbolBytesMax, 'x');
    places = {{.file_offset = 0x18}};
    name_functions(reader_of(file), places);
    CHECK(places[0].function == "name" + std::string(kSymbolBytesMax - 4, 'x'));
  }

  TEST_CASE("stacks: a large symbol table is read only as far as needed") {
    constexpr std::uint64_t kTableOffset = 4096, kNamesOffset = 1ULL << 40;
    const Elf64_Phdr segment{.p_type = PT_LOAD,
                             .p_flags = 0,
                             .p_offset = 0,
                             .p_vaddr = 0,
                             .p_paddr = 0,
                             .p_filesz = 1U << 30,
                             .p_memsz = 1U << 30,
                             .p_align = 0};
    Elf64_Shdr sections[2] = {};
    sections[0].sh_type = SHT_SYMTAB;
    sections[0].sh_link = 1;
    sections[0].sh_offset = kTableOffset;
    sections[0].sh_size = 1ULL << 39;
    sections[1].sh_type = SHT_STRTAB;
    sections[1].sh_offset = kNamesOffset;
    sections[1].sh_size = 1ULL << 39;  // without a NUL
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, "\177ELF\2\1\1", 7);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_phnum = 1;
    header.e_shnum = 2;
    header.e_phoff = sizeof header;
    header.e_shoff = sizeof header + sizeof segment;
    std::string head(kTableOffset, '\0');
    std::memcpy(head.data(), &header, sizeof header);
    std::memcpy(head.data() + header.e_phoff, &segment, sizeof segment);
    std::memcpy(head.data() + header.e_shoff, sections, sizeof sections);
    // Each symbol covers all addresses, optionally without the last one.
    const Elf64_Sym symbol{.st_name = 1,
                           .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                           .st_other = 0,
                           .st_shndx = 1,
                           .st_value = 0,
                           .st_size = 1U << 29};
    std::uint64_t most = 0, table_bytes = 0;
    const auto read = [&](std::uint64_t offset, std::uint64_t size) {
      most = std::max(most, size);
      if (offset < kTableOffset) return head.substr(offset, size);
      if (offset >= kNamesOffset) return std::string(size, 'x');
      table_bytes += size;
      std::string part;
      while (part.size() < size) part.append(reinterpret_cast<const char*>(&symbol), sizeof symbol);
      return part.substr(0, size);
    };
    std::vector<CodeLocation> places(1000, {.file_offset = 64});
    name_functions(read, places);
    for (const auto& place : places) CHECK(place.function == std::string(kSymbolBytesMax, 'x'));
    CHECK(table_bytes <= 4U << 20);
    places.push_back({.file_offset = (1U << 29) + 1});
    name_functions(read, places);
    CHECK(places.back().function.empty());
    CHECK(table_bytes <= 300U << 20);
    CHECK(most <= 4U << 20);
  }

  TEST_CASE("stacks: reading a file with very many tables costs no more than a valid one") {
    constexpr unsigned kTables = 60'000;
    const Elf64_Phdr segment{.p_type = PT_LOAD,
                             .p_flags = 0,
                             .p_offset = 0,
                             .p_vaddr = 0x1000,
                             .p_paddr = 0,
                             .p_filesz = 0x100,
                             .p_memsz = 0x100,
                             .p_align = 0};
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, "\177ELF\2\1\1", 7);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_phnum = 1;
    header.e_shnum = kTables;
    header.e_phoff = sizeof header;
    header.e_shoff = sizeof header + sizeof segment;
    std::vector<Elf64_Shdr> sections(kTables);
    for (auto& section : sections) {
      section.sh_type = SHT_SYMTAB;
      section.sh_size = 1U << 20;
    }
    std::string file(header.e_shoff + kTables * sizeof(Elf64_Shdr), '\0');
    std::memcpy(file.data(), &header, sizeof header);
    std::memcpy(file.data() + header.e_phoff, &segment, sizeof segment);
    std::memcpy(file.data() + header.e_shoff, sections.data(), kTables * sizeof(Elf64_Shdr));
    int reads = 0;
    const auto read = [&](std::uint64_t offset, std::uint64_t size) {
      ++reads;
      return reader_of(file)(offset, size);
    };
    std::vector<CodeLocation> places = {{.file_offset = 0x18}};
    name_functions(read, places);
    CHECK(reads == 3 + 1);  // header, segments and sections; a part of one table
  }

  TEST_CASE("stacks: names are demangled and cut to a limit") {
    const std::string endless(1000, 'x');
    const auto names = readable_names({"", "main", "_ZN6ddprun5trainEi", "_Zx", endless});
    CHECK(names.size() == 5);
    CHECK(names.at("").empty());
    CHECK(names.at("main") == "main");
    CHECK(names.at("_ZN6ddprun5trainEi") == "ddprun::train(int)");
    CHECK(names.at("_Zx") == "_Zx");
    CHECK(names.at(endless).size() < 200);
    CHECK(names.at(endless).ends_with("..."));
    CHECK(readable_names({}).empty());
  }

  TEST_CASE("stacks: only a name too expensive to demangle stays mangled") {
    const auto growing = growing_symbol();
    const auto nested = "_Z1f" + std::string(1U << 20, 'P') + "i";
    const auto names =
        readable_names({growing, nested, "_ZN6ddprun5trainEi"}, std::chrono::minutes(1));
    CHECK(names.at(growing).starts_with(growing.substr(0, 100)));
    CHECK(names.at(nested).starts_with(nested.substr(0, 100)));
    CHECK(names.at("_ZN6ddprun5trainEi") == "ddprun::train(int)");
  }
}

}  // namespace stacks_test
