//! RMSNorm in `f64`, written down from its definition: what the kernels of every backend are held
//! against. It shares nothing with them.

#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

/// `(y, rstd)` of rows of `hidden` elements.
pub fn forward(
    x: &[f64],
    weight: Option<&[f64]>,
    hidden: usize,
    epsilon: f64,
) -> (Vec<f64>, Vec<f64>) {
    let (mut y, mut rstd) = (Vec::new(), Vec::new());
    for row in x.chunks(hidden) {
        let mut squares = 0.0;
        for value in row {
            squares += value * value;
        }
        let root = (squares / hidden as f64 + epsilon).sqrt();
        rstd.push(1.0 / root);
        for (column, value) in row.iter().enumerate() {
            y.push(value / root * weight.map_or(1.0, |weight| weight[column]));
        }
    }
    (y, rstd)
}

/// `(dx, dw)` for the gradient `grad` of y, from the derivative of one element by another:
/// `∂y[j]/∂x[i] = w[j]·(δ[i,j]/m − x[i]·x[j]/(n·m³))`, where `m` is the root mean square of the row.
pub fn backward(
    x: &[f64],
    weight: Option<&[f64]>,
    grad: &[f64],
    hidden: usize,
    epsilon: f64,
) -> (Vec<f64>, Vec<f64>) {
    let (mut dx, mut dw) = (Vec::new(), vec![0.0; hidden]);
    for (x, grad) in x.chunks(hidden).zip(grad.chunks(hidden)) {
        let n = hidden as f64;
        let m = (x.iter().map(|x| x * x).sum::<f64>() / n + epsilon).sqrt();
        let w = |column: usize| weight.map_or(1.0, |weight| weight[column]);
        let mut through_norm = 0.0;
        for column in 0..hidden {
            through_norm += grad[column] * w(column) * x[column];
            dw[column] += grad[column] * x[column] / m;
        }
        for column in 0..hidden {
            dx.push(grad[column] * w(column) / m - x[column] * through_norm / (n * m * m * m));
        }
    }
    (dx, dw)
}

/// The larger of the two terms whose difference is dx: what its errors are measured by. For a row of
/// one element dx all but vanishes, and no saved statistic can carry enough digits for what is left.
pub fn dx_scale(
    x: &[f64],
    weight: Option<&[f64]>,
    grad: &[f64],
    hidden: usize,
    epsilon: f64,
) -> Vec<f64> {
    let (_, rstd) = forward(x, weight, hidden, epsilon);
    let weight = |index: usize| weight.map_or(1.0, |weight| weight[index % hidden]);
    (0..grad.len())
        .map(|index| grad[index] * weight(index) * rstd[index / hidden])
        .collect()
}

/// What errors of dw are measured by: the sum of each column, or what its terms would come to if their
/// signs were chance, whichever is more. Terms that happen to cancel leave their rounding behind.
pub fn dw_scale(x: &[f64], grad: &[f64], hidden: usize, epsilon: f64) -> Vec<f64> {
    let (_, rstd) = forward(x, None, hidden, epsilon);
    let (mut sums, mut squares) = (vec![0.0f64; hidden], vec![0.0f64; hidden]);
    for index in 0..x.len() {
        let term = grad[index] * x[index] * rstd[index / hidden];
        sums[index % hidden] += term;
        squares[index % hidden] += term * term;
    }
    sums.iter()
        .zip(squares)
        .map(|(sum, square)| sum.abs().max(square.sqrt()))
        .collect()
}

/// `‖out − expected‖ / ‖expected‖`; infinite where one has a NaN and the other has not.
pub fn relative_error(out: &[f64], expected: &[f64]) -> f64 {
    error_by(out, expected, expected)
}

/// [`relative_error`], by the norm of `scale`.
pub fn error_by(out: &[f64], expected: &[f64], scale: &[f64]) -> f64 {
    assert_eq!(out.len(), expected.len(), "as many elements as expected");
    let (mut difference, mut norm) = (0.0, 0.0);
    for ((out, expected), scale) in out.iter().zip(expected).zip(scale) {
        if out.is_nan() != expected.is_nan() {
            return f64::INFINITY;
        }
        if !expected.is_nan() {
            difference += (out - expected).powi(2);
            norm += scale.powi(2);
        }
    }
    if difference == 0.0 {
        0.0
    } else {
        (difference / norm).sqrt()
    }
}

/// Values around zero, of about unit size, the same for the same seed.
pub fn values(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * 4.0
        })
        .collect()
}

#[test]
fn the_reference_agrees_with_finite_differences() {
    let (hidden, rows, epsilon, step) = (5, 3, 1e-3, 1e-5);
    let (x, w, grad) = (
        values(rows * hidden, 1),
        values(hidden, 2),
        values(rows * hidden, 3),
    );
    let loss = |x: &[f64], w: &[f64]| -> f64 {
        forward(x, Some(w), hidden, epsilon)
            .0
            .iter()
            .zip(&grad)
            .map(|(y, g)| y * g)
            .sum()
    };
    let slope = |at: &[f64], loss: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        (0..at.len())
            .map(|index| {
                let (mut above, mut below) = (at.to_vec(), at.to_vec());
                above[index] += step;
                below[index] -= step;
                (loss(&above) - loss(&below)) / (2.0 * step)
            })
            .collect()
    };
    let (dx, dw) = backward(&x, Some(&w), &grad, hidden, epsilon);
    assert!(relative_error(&dx, &slope(&x, &|x| loss(x, &w))) < 1e-8);
    assert!(relative_error(&dw, &slope(&w, &|w| loss(&x, w))) < 1e-8);
}
