#include "tests/bench/collective_bench/figures.hpp"

#include <ddprun/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

namespace ddprun::bench {

namespace {

constexpr double kMicro = 1e6;
constexpr double kGiga = 1e9;

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

/// Like nccl-tests: two decimals if they are significant.
std::string microseconds(double seconds) {
  const double value = seconds * kMicro;
  return fixed(value, value < 100 ? 2 : value < 1000 ? 1 : 0);
}

std::string wrong_text(const Figure& figure) {
  return figure.wrong ? std::to_string(*figure.wrong) : "N/A";
}

std::ofstream open(const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  file.open(path);
  if (!file) throw_system_error("opening " + path, errno);
  return file;
}

void finish(std::ofstream& file, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  file << text << std::flush;
  if (!file) throw_system_error("writing " + path, errno);
}

std::string csv_of(const Options& options, int ranks, const std::vector<Figure>& figures) {
  std::string text =
      "collective,backend,ranks,bytes,count,type,redop,root,time_us,algbw_gb_s,busbw_gb_s,wrong,"
      "probe_us,vs_first,p99_us\n";
  for (const auto& figure : figures) {
    text += figure.collective + "," + figure.backend + "," + std::to_string(ranks) + "," +
            std::to_string(figure.bytes) + "," + std::to_string(figure.count) + "," +
            type_name(options.type) + "," + figure.op + "," + std::to_string(figure.root) + "," +
            fixed(figure.seconds * kMicro, 3) + "," +
            fixed(figure.algorithm_bandwidth() / kGiga, 6) + "," +
            fixed(figure.bus_bandwidth() / kGiga, 6) + "," +
            (figure.wrong ? std::to_string(*figure.wrong) : "") + "," +
            (figure.probe_seconds ? fixed(*figure.probe_seconds * kMicro, 3) : "") + "," +
            fixed(figure.to_first, 4) + "," +
            (figure.p99_seconds ? fixed(*figure.p99_seconds * kMicro, 3) : "") + "\n";
  }
  return text;
}

std::string json_of(const Options& options, int ranks, const std::vector<Figure>& figures) {
  nlohmann::json all = {{"ranks", ranks},
                        {"type", type_name(options.type)},
                        {"iterations", options.iterations},
                        {"rounds", options.rounds},
                        {"memory", options.own_memory ? "own" : "group"},
                        {"rewritten", options.rewrite},
                        {"figures", nlohmann::json::array()}};
  for (const auto& figure : figures) {
    nlohmann::json one = {{"collective", figure.collective},
                          {"backend", figure.backend},
                          {"bytes", figure.bytes},
                          {"count", figure.count},
                          {"redop", figure.op},
                          {"root", figure.root},
                          {"time_us", figure.seconds * kMicro},
                          {"algbw_gb_s", figure.algorithm_bandwidth() / kGiga},
                          {"busbw_gb_s", figure.bus_bandwidth() / kGiga},
                          {"vs_first", figure.to_first}};
    if (figure.p99_seconds) one["p99_us"] = *figure.p99_seconds * kMicro;
    if (figure.wrong) one["wrong"] = *figure.wrong;
    if (figure.probe_seconds) one["probe_us"] = *figure.probe_seconds * kMicro;
    all["figures"].push_back(std::move(one));
  }
  return all.dump(2) + "\n";
}

}  // namespace

void print_header(const Options& options, int ranks) {
  std::printf("# %d ranks, %d iterations (%d to warm up), medians of %d rounds, buffers %s%s\n",
              ranks, options.iterations, options.warmup_iterations, options.rounds,
              options.own_memory ? "from the heap" : "of the group",
              options.rewrite ? ", rewritten before each call" : "");
  std::printf("#%11s %12s %8s %6s %5s  %-8s %10s %8s %8s %6s %10s %7s %7s\n", "size", "count",
              "type", "redop", "root", "backend", "time", "algbw", "busbw", "#wrong", "p99",
              "probe", "vs");
  std::printf("#%11s %12s %8s %6s %5s  %-8s %10s %8s %8s %6s %10s %7s %7s\n", "(B)", "(elements)",
              "", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(%)", "first");
}

void print(const Figure& figure, const Options& options) {
  const std::string probe =
      figure.probe_seconds ? fixed(*figure.probe_seconds / figure.seconds * 100, 0) : "-";
  std::printf("%12zu %12zu %8s %6s %5d  %-8s %10s %8s %8s %6s %10s %7s %7s\n", figure.bytes,
              figure.count, type_name(options.type).c_str(), figure.op.c_str(), figure.root,
              figure.backend.c_str(), microseconds(figure.seconds).c_str(),
              fixed(figure.algorithm_bandwidth() / kGiga, 2).c_str(),
              fixed(figure.bus_bandwidth() / kGiga, 2).c_str(), wrong_text(figure).c_str(),
              figure.p99_seconds ? microseconds(*figure.p99_seconds).c_str() : "-", probe.c_str(),
              fixed(figure.to_first, 2).c_str());
  std::fflush(stdout);
}

FigureFiles::FigureFiles(const Options& options)
    : options_(options), csv_(open(options.csv)), json_(open(options.json)) {}

void FigureFiles::write(int ranks, const std::vector<Figure>& figures) {
  finish(csv_, options_.csv, csv_of(options_, ranks, figures));
  finish(json_, options_.json, json_of(options_, ranks, figures));
}

}  // namespace ddprun::bench
