// The filter of LandSalp without a residual model, written as one would in C++ with Eigen: the equations (5) and (6) of
// the paper assembled and solved for each sigma point, covariances in full, errors of the pose along the fixed axes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <eigen3/Eigen/Dense>

constexpr int N = 3, n = N + 2, POINTS = 2 * n;
using State = Eigen::Matrix<double, n, 1>;
using Square = Eigen::Matrix<double, n, n>;
using Points = Eigen::Matrix<double, n, POINTS>;
using Wheels = Eigen::Matrix<double, N, 1>;
using Links = Eigen::Matrix<double, N, 27, Eigen::RowMajor>;  // columns as in chain_kernels.py
using Input = Eigen::Matrix<double, n, N>;

struct Motion {
  Square drag, to_base;
  Input thrust;
};

static Motion motion(const Links& links, const State& x) {
  Motion out{Square::Zero(), Square::Zero(), Input::Zero()};
  double heading = 0, px = 0, py = 0, mean_heading = 0, joints[N][2];
  for (int i = 0; i < N; i++) {
    const double half = 0.5 * links(i, 0), ch = std::cos(heading), sh = std::sin(heading);
    if (i > 0) px += half * ch, py += half * sh;
    const double wx = px + ch * links(i, 1) - sh * links(i, 2), wy = py + sh * links(i, 1) + ch * links(i, 2);
    const double c = std::cos(heading + links(i, 3)), s = std::sin(heading + links(i, 3));
    Eigen::Matrix<double, 3, n> jacobian = Eigen::Matrix<double, 3, n>::Zero();
    jacobian.topLeftCorner<2, 2>() << c, s, -s, c;
    for (int j = 2; j < 3 + i; j++) {
      const double dx = wx - (j > 2 ? joints[j - 3][0] : 0), dy = wy - (j > 2 ? joints[j - 3][1] : 0);
      jacobian.col(j) << s * dx - c * dy, c * dx + s * dy, 1;
      out.to_base.block<3, 1>(0, j) += Eigen::Vector3d(-dy, dx, 1) / N;
    }
    const Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>> drag(&links(i, 4));
    out.drag += jacobian.transpose() * drag * jacobian;
    out.thrust.col(i) = jacobian.row(0).transpose() * drag(0, 0);
    mean_heading += heading / N;
    if (i < N - 1) {
      px += half * ch, py += half * sh;
      joints[i][0] = px, joints[i][1] = py;
      heading += x(3 + i);
      out.drag(3 + i, 3 + i) += links(i, 13);
      out.to_base(3 + i, 3 + i) = 1;
    }
  }
  out.to_base(0, 0) = out.to_base(1, 1) = 1;
  // Along the fixed axes.
  const double c = std::cos(x(2) - mean_heading), s = std::sin(x(2) - mean_heading);
  out.to_base.topRows<2>() = (Eigen::Matrix2d() << c, -s, s, c).finished() * out.to_base.topRows<2>();
  return out;
}

static State slope(const Links& links, const State& x, const Wheels& u) {
  const Motion m = motion(links, x);
  return m.to_base * m.drag.ldlt().solve(m.thrust * u);
}

static Points drawn(const State& mean, const Square& root) {
  Points out;
  out << (std::sqrt(n) * root).colwise() + mean, (-std::sqrt(n) * root).colwise() + mean;
  return out;
}

struct Settings {
  double wheel_noise, white, model, scale, lasts_s, bias_variance, threshold, longest_step_s, body_speed_variance;
};

extern "C" int64_t run(const double* of_links, const Settings* set, const double* errors, int64_t count,
                       const int64_t* kinds, const int64_t* stamps_ns, const double* values, int64_t width, double* start,
                       double* start_covariance, double* means, double* covariances) {
  const Links links = Eigen::Map<const Links>(of_links);
  const Eigen::Map<const Eigen::Matrix<double, n, N>> turning(errors);  // of base and joints by each link's
  State mean = Eigen::Map<State>(start);
  Square covariance = Eigen::Map<Square>(start_covariance);
  Wheels u = Wheels::Zero();
  double last_s[N];
  std::fill(last_s, last_s + N, -1);
  int64_t found = 0;
  for (int64_t k = 0; k < count; k++) {
    const double now_s = 1e-9 * (stamps_ns[k] - stamps_ns[0]), elapsed_s = k ? 1e-9 * (stamps_ns[k] - stamps_ns[k - 1]) : 0;
    if (elapsed_s > 0) {
      const int steps = std::max(1, static_cast<int>(std::ceil(elapsed_s / set->longest_step_s)));
      const double h = elapsed_s / steps;
      for (int step = 0; step < steps; step++) {
        const Motion here = motion(links, mean);
        const Input b = here.to_base * here.drag.ldlt().solve(here.thrust);
        Points points = drawn(mean, covariance.llt().matrixL());
        for (int p = 0; p < POINTS; p++) {
          const State x = points.col(p), k1 = slope(links, x, u), k2 = slope(links, x + 0.5 * h * k1, u),
                      k3 = slope(links, x + 0.5 * h * k2, u), k4 = slope(links, x + h * k3, u);
          points.col(p) = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
          for (int j = 3; j < n; j++) points(j, p) = std::clamp(points(j, p), links(j - 3, 14), links(j - 3, 15));
        }
        mean = points.rowwise().mean();
        points.colwise() -= mean;
        covariance = points * points.transpose() / POINTS + h * set->wheel_noise * set->wheel_noise * b * b.transpose() +
                     h * set->lasts_s * set->model * turning * turning.transpose();
        covariance.topLeftCorner<2, 2>().diagonal().array() += h * set->lasts_s * set->body_speed_variance;
      }
    }
    if (kinds[k] < 0) {
      u = Eigen::Map<const Wheels>(values + k * width);
      continue;
    }
    const int link = kinds[k];
    const double rate = values[k * width];
    const double period_s = last_s[link] < 0 ? 1e9 : std::max(1e-3, now_s - last_s[link]);
    last_s[link] = now_s;
    const double scaled = set->scale * rate * rate, single = set->white + set->model + scaled + set->bias_variance;
    const double lasting = set->white + std::max(1.0, set->lasts_s / period_s) * (set->model + scaled) +
                           std::max(1.0, 20 / period_s) * set->bias_variance;
    const Square root = covariance.llt().matrixL();
    const Points points = drawn(mean, root);
    Eigen::Matrix<double, 1, POINTS> seen;
    for (int p = 0; p < POINTS; p++) {
      const Motion m = motion(links, points.col(p));
      const State q = m.drag.ldlt().solve(m.thrust * u);
      seen(p) = q.segment(2, 1 + link).sum();
    }
    const double largest = set->lasts_s * set->model / period_s;
    State parts = root.triangularView<Eigen::Lower>().solve(set->lasts_s * set->model * turning.col(link));
    double explained = parts.squaredNorm();
    if (explained > largest) parts *= std::sqrt(largest / explained), explained = largest;
    seen.head<n>() += std::sqrt(n) * parts.transpose();
    seen.tail<n>() -= std::sqrt(n) * parts.transpose();
    const double expected = seen.mean();
    seen.array() -= expected;
    const double spread = seen.squaredNorm() / POINTS + lasting - explained, innovation = rate - expected;
    if (innovation * innovation <= set->threshold * (single + std::max(0.0, spread - lasting))) {
      const State gain = (points.colwise() - mean) * seen.transpose() / POINTS / spread;
      mean += gain * innovation;
      covariance -= spread * gain * gain.transpose();
    }
    Eigen::Map<State>(means + n * found) = mean;
    Eigen::Map<Square>(covariances + n * n * found) = covariance;
    found++;
  }
  return found;
}
