#include "tests/bench/collective_bench/options.hpp"

#include "tests/bench/collective_bench/cases.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

namespace ddprun::bench {

namespace {

// As many sizes as anybody looks at; a step of one byte would ask for millions.
constexpr std::size_t kSizesMax = 1000;

const std::map<std::string, DataType> kTypes = {
    {"float", DataType::float32},     {"double", DataType::float64}, {"half", DataType::float16},
    {"bfloat16", DataType::bfloat16}, {"int32", DataType::int32},    {"int64", DataType::int64},
    {"uint8", DataType::uint8}};

const std::map<std::string, ReduceOp> kOps = {{"sum", ReduceOp::sum},
                                              {"avg", ReduceOp::average},
                                              {"prod", ReduceOp::product},
                                              {"min", ReduceOp::min},
                                              {"max", ReduceOp::max}};

template <typename Map, typename Value>
std::string name_in(const Map& names, Value value) {
  for (const auto& [name, one] : names) {
    if (one == value) return name;
  }
  return "?";
}

void add_sizes(CLI::App& app, Options& options) {
  const auto as_bytes = CLI::AsSizeValue(false);
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size (4, 1K, 32M)")
      ->transform(as_bytes);
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size")->transform(as_bytes);
  app.add_option("-i,--stepbytes", options.step_bytes, "from one size to the next")
      ->transform(as_bytes);
  app.add_option("-f,--stepfactor", options.step_factor,
                 "from one size to the next, in place of -i")
      ->check(CLI::Range(2, 1024));
}

void add_counts(CLI::App& app, Options& options) {
  app.add_option("-n,--iters", options.iterations, "calls of a measurement")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("-w,--warmup_iters", options.warmup_iterations, "calls before it")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--rounds", options.rounds,
                 "measurements of each, whose median is shown; backends take turns in each round")
      ->check(CLI::Range(1, 1000));
}

}  // namespace

std::variant<Options, int> parse(int argc, char** argv) {
  Options options;
  CLI::App app{"Times collectives, with the options and columns of nccl-tests"};
  app.option_defaults()->always_capture_default();
  app.add_option("collective", options.collectives, "what to time")
      ->check(CLI::IsMember(case_names()));
  add_sizes(app, options);
  add_counts(app, options);
  app.add_option("-c,--check", options.check, "compare results with what they should be (0, 1)");
  app.add_option("-o,--op", options.op, "sum, avg, prod, min, max")
      ->transform(CLI::CheckedTransformer(kOps))
      ->default_str("sum");
  app.add_option("-d,--datatype", options.type,
                 "float, double, half, bfloat16, int32, int64, uint8")
      ->transform(CLI::CheckedTransformer(kTypes))
      ->default_str("float");
  app.add_option("-r,--root", options.root, "of collectives that have one")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--vs", options.backends, "backends, separated by commas")->delimiter(',');
  app.add_flag("--latencies", options.latencies,
               "time each call alone, on rank 0, and show the slowest of 100 as well");
  app.add_flag("--own_memory", options.own_memory,
               "buffers from the heap, not from the group's own memory");
  app.add_option("--csv", options.csv, "file for the figures");
  app.add_option("--json", options.json, "file for the figures");
  try {
    app.parse(argc, argv);
    if (options.min_bytes > options.max_bytes)
      throw CLI::ValidationError("--minbytes", "is more than --maxbytes");
    if (sizes_of(options).size() > kSizesMax) {
      throw CLI::ValidationError("--stepbytes",
                                 "more than " + std::to_string(kSizesMax) + " sizes");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return options;
}

std::vector<std::size_t> sizes_of(const Options& options) {
  std::vector<std::size_t> sizes;
  const std::size_t step = std::max<std::size_t>(options.step_bytes, 1);
  for (std::size_t size = options.min_bytes;
       size <= options.max_bytes && sizes.size() <= kSizesMax;) {
    sizes.push_back(size);
    size = options.step_factor > 1
               ? std::max<std::size_t>(size, 1) * static_cast<std::size_t>(options.step_factor)
               : size + step;
  }
  return sizes;
}

std::string type_name(DataType type) {
  return name_in(kTypes, type);
}

std::string op_name(ReduceOp op) {
  return name_in(kOps, op);
}

}  // namespace ddprun::bench
